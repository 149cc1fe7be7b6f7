/** Packages that one test or benchmark needs and the node does not: they stand in a folder with its own package.json and lock. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Installs what the folder's lock says, unless it is there; takes seconds the first time. Where it cannot, the process ends with 1 and
 * one line that says why: a program calls this before it starts anything.
 * @param folder ends with a slash
 * @returns `require` as a file of that folder has it
 */
export function requireFrom(folder: URL): NodeJS.Require {
  const lock = readFileSync(new URL('package-lock.json', folder), 'utf8')
  // npm takes it away with all else before it installs, and it is written afterwards: half an installation has none.
  const stamp = new URL('node_modules/.installed.json', folder)
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== lock) {
    install(fileURLToPath(folder))
    writeFileSync(stamp, lock)
  }
  return createRequire(new URL('package.json', folder))
}

/** No install scripts. Without a network it does with npm's own cache, or gives up after seconds instead of npm's minutes. */
const FLAGS = [
  '--ignore-scripts',
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
  process.stderr.write(
    `npm cannot install what ${place} needs (${error?.message ?? reasonOf(stderr)}): run "npm ci --prefix ${place}" where its registry can be reached\n`,
  )
  process.exit(1)
}

/** npm says it in many lines. */
const reasonOf = (stderr: string): string =>
  /^npm \S+ .*reason: (.*)$/m.exec(stderr)?.[1] ??
  /^npm (?:error|ERR!) (.*)$/m.exec(stderr)?.[1] ??
  ''
