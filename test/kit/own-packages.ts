/**
 * Packages that few tests or benchmarks need and the node does not: they stand in a folder with its own package.json and lock.
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
 * Installs what the folder's lock says, unless it is there; takes seconds the first time. Where it cannot, the process ends with 1 and
 * one line that says why: a program calls this before it starts anything. In a test file it throws that line.
 * @param folder ends with a slash
 * @returns `require` as a file of that folder has it
 */
export function requireFrom(folder: URL): NodeJS.Require {
  const lock = readFileSync(new URL('package-lock.json', folder), 'utf8')
  // npm takes it away with all else before it installs, and it is written afterwards: half an installation has none.
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
 * Test files run beside each other, and two installations into one folder spoil both. The claim is a link to the number of its process,
 * made in one step; that of a process that ended is void.
 */
function alone(folder: string, work: () => void): void {
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 16)
  const claim = join(tmpdir(), `flashnode-install-${name}`)
  while (!takes(claim))
    if (isHeld(claim)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
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

function isHeld(claim: string): boolean {
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
  const place = `${relative('.', folder)}/`
  const text = `npm cannot install what ${place} needs (${error?.message ?? reasonOf(stderr)}): run "npm ci --prefix ${place}" where its registry can be reached`
  // A test file that ends its process is reported as that, without the reason.
  if ('__vitest_worker__' in globalThis) throw new Error(text)
  process.stderr.write(`${text}\n`)
  process.exit(1)
}

/** npm says it in many lines. */
const reasonOf = (stderr: string): string =>
  /^npm \S+ .*reason: (.*)$/m.exec(stderr)?.[1] ??
  /^npm (?:error|ERR!) (.*)$/m.exec(stderr)?.[1] ??
  ''

if (import.meta.main)
  for (const folder of process.argv.slice(2)) requireFrom(pathToFileURL(`${folder}/`))
