/**
 * This module packs the package and installs it into separate folders, for the Nodes that a machine
 * may have.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'

export type Ended = { readonly status: number | string; readonly out: string; readonly err: string }

/**
 * A person who installs has neither npm's variables nor those of this start; only the settings for
 * reaching a registry are passed on.
 */
const OURS = /^(npm_|NODE_(?!EXTRA_CA_CERTS)|MALLOC_|FLASHNODE_|INIT_CWD|VITEST)/
const systemPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !/node_modules|node-gyp-bin/.test(folder))
  .join(delimiter)

/** Makes the environment of a person's shell; `node` is the machine's, or the one in `before`. */
export const environmentOf = (before?: string): Record<string, string> => ({
  ...Object.fromEntries(
    Object.entries(process.env)
      .filter((one): one is [string, string] => one[1] !== undefined)
      .filter(([name]) => !OURS.test(name)),
  ),
  PATH: before === undefined ? systemPath : `${before}${delimiter}${systemPath}`,
  CI: '1',
})

const LIMIT_MS = 600_000
/** An installation writes several hundred megabytes, on a disk that others may use. */
const INSTALL_MS = 900_000

/** Runs a program to its end; never rejects. */
export function run(
  file: string,
  args: readonly string[],
  options: {
    readonly cwd: string
    readonly env?: Record<string, string>
    readonly withinMs?: number
  },
): Promise<Ended> {
  const { cwd, env = environmentOf(), withinMs = LIMIT_MS } = options
  return new Promise((resolve) => {
    execFile(
      file,
      args,
      { cwd, env, timeout: withinMs, maxBuffer: 32 * 2 ** 20 },
      (error, out, err) => resolve({ status: error?.code ?? error?.signal ?? 0, out, err }),
    )
  })
}

export const work = mkdtempSync(join(tmpdir(), 'flashnode-package-'))
process.once('exit', () => rmSync(work, { recursive: true, force: true }))

/**
 * Packs this checkout by `npm run tarball`.
 * @throws {Error}
 */
export async function pack(): Promise<string> {
  const argv = ['test/package/tarball.ts', '--to', work]
  const env = environmentOf(dirname(process.execPath))
  const { status, err } = await run(process.execPath, argv, { cwd: '.', env })
  const name = readdirSync(work).find((one) => one.endsWith('.tgz'))
  if (status !== 0 || name === undefined) throw new Error(`npm run tarball: ${err}`)
  return join(work, name)
}

/** `off`: npm runs no install scripts, so that the package `node` has no binary. */
export type Scripts = 'on' | 'off'

/**
 * Installs into a folder that is empty or contains a project.
 * @param node that runs npm, which skips optional packages that are not for this Node; by default
 * the machine's
 * @throws {Error}
 */
export async function install(
  name: string,
  packages: readonly string[],
  scripts: Scripts,
  node?: string,
): Promise<string> {
  const folder = join(work, name)
  mkdirSync(folder, { recursive: true })
  const own = join(folder, 'package.json')
  if (!existsSync(own)) writeFileSync(own, '{"type":"module","private":true}\n')
  const argv = ['install', '--no-audit', '--no-fund', '--prefer-offline', ...packages]
  if (scripts === 'off') argv.push('--ignore-scripts')
  const { status, err } = await run('npm', argv, {
    cwd: folder,
    env: environmentOf(node && dirname(node)),
    withinMs: INSTALL_MS,
  })
  if (status !== 0) throw new Error(`npm install in ${name}: ${err.slice(-2_000)}`)
  return folder
}

/** Reads the version of a Node; undefined: the file does not exist. */
export async function versionOf(file: string): Promise<string | undefined> {
  const { status, out } = await run(file, ['--version'], { cwd: work })
  return status === 0 ? out.trim().replace(/^v/, '') : undefined
}
