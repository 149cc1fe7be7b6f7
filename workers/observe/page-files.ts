/**
 * The status page's files for a browser: our modules without types, and libraries as shipped. They
 * are read on first request and cached.
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
/** Libraries by the name under which modules import them. */
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

/**
 * Creates the reader of the page's files. Each call throws the read error until the files can be
 * read.
 */
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

/** File names start with a hash of all files, so that a browser may cache them forever. */
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

/**
 * Strips the types of modules in a separate thread, because this takes a quarter of a second
 * (2026-11).
 */
async function stripped(texts: readonly PageText[]): Promise<readonly PageText[]> {
  const worker = new Worker(new URL('./strip-types.ts', import.meta.url), {
    name: 'page',
    workerData: texts,
    // Node warns that type stripping is experimental.
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  const [response] = (await once(worker, 'message')) as [readonly PageText[]]
  return response
}

function* libraryFiles(): Iterable<[string, string]> {
  for (const [name, specifier] of Object.entries(LIBRARIES))
    yield [libraryPath(name), readPackage(specifier)]
  yield ['lib/uplot.css', readPackage(LIBRARY_STYLE)]
}

const libraryPath = (name: string): string => `lib/${name.replace('/', '-')}.js`

/** Removes the source map line, because a browser with open tools would request the map. */
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
