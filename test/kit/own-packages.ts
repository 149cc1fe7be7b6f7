/**
 * Packages that few tests or benchmarks need are in a folder with its own package.json and lock.
 * The node does not need these packages.
 * Usage: node test/kit/own-packages.ts FOLDER … (installs before a check reads their types)
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/**
 * Installs the packages of the folder's lock, unless they are installed; the first time takes
 * seconds. If that fails, the process ends with 1 and one line that says why. A program calls this
 * before it starts anything. In a test file it throws that line.
 * @param folder ends with a slash
 * @returns the `require` of a file in that folder
 */
export function requireFrom(folder: URL): NodeJS.Require {
  const lock = readFileSync(new URL('package-lock.json', folder), 'utf8')
  // npm deletes the stamp before it installs, and the stamp is written afterwards. An incomplete
  // installation therefore has no stamp.
  const stamp = new URL('node_modules/.installed.json', folder)
  const isInstalled = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === lock
  if (!isInstalled())
    alone(fileURLToPath(folder), () => {
      if (isInstalled()) return
      install(fileURLToPath(folder))
      writeFileSync(stamp, lock)
    })
  return createRequire(new URL('package.json', folder))
}

/**
 * Runs the work while no other process installs into the folder, because two installations at once
 * spoil both. The claim is a link to the process id, made in one step. A claim of a process that
 * ended is void.
 */
function alone(folder: string, work: () => void): void {
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 16)
  const claim = join(tmpdir(), `flashnode-install-${name}`)
  while (!takes(claim))
    if (isLocked(claim)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
    else rmSync(claim, { force: true })
  try {
    work()
  } finally {
    rmSync(claim, { force: true })
  }
}

function takes(claim: string): boolean {
  try {
    symlinkSync(`${process.pid}`, claim)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function isLocked(claim: string): boolean {
  try {
    return process.kill(Number(readlinkSync(claim)), 0)
  } catch {
    return false
  }
}

/**
 * npm runs no install scripts and leaves out peers, because the only one is TypeScript (31 MB, for
 * web3). Without a network it uses its cache, or gives up after seconds instead of minutes.
 */
const FLAGS = [
  '--ignore-scripts',
  '--omit=peer',
  '--prefer-offline',
  '--no-audit',
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
]

function install(folder: string): void {
  const { status, stderr, error } = spawnSync('npm', ['ci', ...FLAGS, '--prefix', folder], {
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (status === 0) return
  const relativePath = `${relative('.', folder)}/`
  const text = `npm cannot install what ${relativePath} needs (${error?.message ?? reasonOf(stderr)}): run "npm ci --prefix ${relativePath}" where its registry can be reached`
  // A test file that ends its process would be reported without the reason.
  if ('__vitest_worker__' in globalThis) throw new Error(text)
  process.stderr.write(`${text}\n`)
  process.exit(1)
}

/** npm reports the reason in many lines, of which one is enough. */
const reasonOf = (stderr: string): string =>
  /^npm \S+ .*reason: (.*)$/m.exec(stderr)?.[1] ??
  /^npm (?:error|ERR!) (.*)$/m.exec(stderr)?.[1] ??
  ''

if (import.meta.main)
  for (const folder of process.argv.slice(2)) requireFrom(pathToFileURL(`${folder}/`))
