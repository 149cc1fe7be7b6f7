/**
 * The files of the status page as a browser gets them: modules of ours with their types stripped, libraries as they are shipped. Read when the
 * first one is asked for, and kept.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { PageFile, StatusPage } from '../../rpc/http/status-page.ts'
import type { PageText } from './strip-types.ts'

const FOLDER = new URL('../../rpc/page/', import.meta.url)
/** By the name under which a module imports it. */
const LIBRARIES = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  uplot: 'uplot/dist/uPlot.esm.js',
} as const
const LIBRARY_STYLE = 'uplot/dist/uPlot.min.css'

const TYPES: Readonly<Record<string, string>> = {
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const COMMON = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
}

export type PageFiles = Pick<StatusPage, 'html' | 'file'>
type Opened = {
  readonly html: PageFile
  readonly files: ReadonlyMap<string, PageFile>
}

/** @throws from each call what stands in the way of reading them, until they can be read */
export function createPageFiles(): PageFiles {
  let opened: Promise<Opened> | undefined
  const open = () => {
    opened ??= openFiles().catch((error: Error) => {
      opened = undefined
      throw error
    })
    return opened
  }
  return {
    html: async () => (await open()).html,
    file: async (name) => (await open()).files.get(name),
  }
}

/** Names begin with what all of them are, so that a browser may keep them for good. */
async function openFiles(): Promise<Opened> {
  const bodies = new Map<string, string>([...(await stripped(ownFiles())), ...libraryFiles()])
  const hash = createHash('sha256')
  for (const [name, body] of bodies) hash.update(name).update(body)
  const version = hash.digest('hex').slice(0, 16)
  const files = new Map<string, PageFile>()
  for (const [name, body] of bodies)
    files.set(`${version}/${name}`, {
      headers: {
        ...COMMON,
        'content-type': TYPES[extname(name)] ?? 'text/plain; charset=utf-8',
        'cache-control': 'public, max-age=31536000, immutable',
      },
      body,
    })
  return { html: htmlOf(version, [...bodies.keys()]), files }
}

function ownFiles(): PageText[] {
  const names = readdirSync(FOLDER).toSorted((a, b) => (a < b ? -1 : 1))
  return names
    .filter((name) => name !== 'index.html' && extname(name) in TYPES)
    .map((name) => [name, readFileSync(new URL(name, FOLDER), 'utf8')])
}

/** Modules without their types: by a thread of its own, the front would stand still for a quarter of a second (2026-11). */
async function stripped(texts: readonly PageText[]): Promise<readonly PageText[]> {
  const worker = new Worker(new URL('./strip-types.ts', import.meta.url), {
    name: 'page',
    workerData: texts,
    // Node says that stripping is experimental.
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  const [answer] = (await once(worker, 'message')) as [readonly PageText[]]
  return answer
}

function* libraryFiles(): Iterable<[string, string]> {
  for (const [name, specifier] of Object.entries(LIBRARIES))
    yield [libraryPath(name), readPackage(specifier)]
  yield ['lib/uplot.css', readPackage(LIBRARY_STYLE)]
}

const libraryPath = (name: string): string => `lib/${name.replace('/', '-')}.js`

/** Without the line that names a map of the source, which a browser with open tools would ask for. */
const readPackage = (specifier: string): string =>
  readFileSync(fileURLToPath(import.meta.resolve(specifier)), 'utf8').replace(
    /\n\/\/# sourceMappingURL=.*\s*$/,
    '\n',
  )

function htmlOf(version: string, names: readonly string[]): PageFile {
  const base = `page/${version}/`
  const imports = Object.fromEntries(
    Object.keys(LIBRARIES).map((name) => [name, `./${base}${libraryPath(name)}`]),
  )
  const map = JSON.stringify({ imports })
  const preloads = names
    .filter((name) => /\.[jt]s$/.test(name))
    .map((name) => `<link rel="modulepreload" href="${base}${name}">`)
  const body = readFileSync(new URL('index.html', FOLDER), 'utf8')
    .replaceAll('BASE/', base)
    .replace('<!-- IMPORTS -->', () => `<script type="importmap">${map}</script>`)
    .replace('<!-- PRELOADS -->', () => preloads.join('\n'))
  const allowed = createHash('sha256').update(map).digest('base64')
  return {
    headers: {
      ...COMMON,
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      vary: 'Accept',
      'cross-origin-opener-policy': 'same-origin',
      'content-security-policy': [
        "default-src 'none'",
        `script-src 'self' 'sha256-${allowed}'`,
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ].join('; '),
    },
    body,
  }
}
