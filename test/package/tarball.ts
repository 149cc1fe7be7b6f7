/**
 * Makes `flashnode-VERSION.tgz` in the root or in another folder. It packs a folder whose
 * package.json has no scripts and no development dependencies. Both are for a checkout, and npm
 * warns of `prepare` in an installed package.
 * Usage: npm run tarball [-- --to DIRECTORY]
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const { values } = parseArgs({ options: { to: { type: 'string', default: '.' } } })
const to = resolve(values.to)
process.chdir(new URL('../..', import.meta.url).pathname)
execFileSync(process.execPath, ['test/package/build.ts'], { stdio: 'inherit' })

const manifest: Record<string, unknown> = JSON.parse(readFileSync('package.json', 'utf8'))
const { scripts: _, devDependencies: __, allowScripts: ___, ...packed } = manifest
const stage = mkdtempSync(join(tmpdir(), 'flashnode-pack-'))
try {
  for (const name of ['README.md', 'LICENSE', ...(packed['files'] as readonly string[])])
    cpSync(name, join(stage, name), { recursive: true })
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(packed, null, 2)}\n`)
  execFileSync('npm', ['pack', '--silent', '--pack-destination', to, stage], { stdio: 'inherit' })
} finally {
  rmSync(stage, { recursive: true, force: true })
}
