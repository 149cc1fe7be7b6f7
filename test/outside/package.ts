/**
 * This check uses the package like a person who installs it. The result of `npm run tarball` is
 * installed from the registry into empty folders, with install scripts on and off. Each available
 * Node runs it: the machine's (with the package's own where that is too old), the project's, and
 * Node 22 and 26. With `--short` only the machine's and the project's run it.
 * Usage: npm run package [-- --short]
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isEnough } from '../../workers/process/node-version.ts'
import { checks } from '../kit/checks.ts'
import { checkCommand, checkPage } from './package/command.ts'
import { checkDeployment } from './package/deploy.ts'
import { checkHardhat, checkVitest, type Project, project } from './package/examples.ts'
import { environmentOf, install, pack, run, versionOf, work } from './package/install.ts'
import { checkOrphan, checkProgram, checkTypes } from './package/programs.ts'

const { values } = parseArgs({ options: { short: { type: 'boolean', default: false } } })

/**
 * The maximum size of the packed file, which must contain nothing unnecessary; 2026-11: 702,000
 * bytes.
 */
const MAX_BYTES = 1_000_000

const { check, skip, close } = checks('package')
const tarball = await pack()
const listed = (await run('tar', ['-tzf', tarball], { cwd: work })).out.trim().split('\n')
const strange = listed.filter(
  (name) =>
    !/^package\/(dist\/(engine|rpc|workers)\/|(package\.json|README\.md|LICENSE|CHANGELOG\.md)$)/.test(
      name,
    ) ||
    (/\.ts$/.test(name) && !/\.d\.ts$|^package\/dist\/rpc\/page\//.test(name)) ||
    /\.sol$|\.test\.|workers\/prepare\.js$/.test(name),
)
check('the tarball holds the files that run and no others', strange.length === 0, strange.join(' '))
const { size } = statSync(tarball)
check(
  'the tarball is smaller than its limit',
  size < MAX_BYTES,
  `${listed.length} files, ${size} bytes`,
)
const packed = JSON.parse(
  (await run('tar', ['-xOzf', tarball, 'package/package.json'], { cwd: work })).out,
)
check('the packed package.json has no scripts, so npm warns of none', packed.scripts === undefined)
check(
  'the packed package.json has the name and no development dependencies',
  packed.name === 'flashnode' && packed.devDependencies === undefined,
)
const { private: isPrivate } = JSON.parse(readFileSync('package.json', 'utf8'))
check('the checkout is private, so npm refuses to publish it', isPrivate === true)

const own = process.execPath

/** Checks a folder without install scripts on the Node of this project. */
async function checkOwn(off: string): Promise<void> {
  await checkCommand({ folder: off, node: own, name: `Node ${process.versions.node}` }, check)
  await checkPage(off, check)
  await checkTypes(off, check)
  for (const program of ['any', 'two', 'libraries'] as const)
    await checkProgram(program, { folder: off, node: own, name: process.version }, check)
}

/**
 * Checks a machine whose Node is too old. Install scripts (`on`) add a newer one; without them
 * (`off`) the command says what to do.
 */
async function checkTooOld(off: string, on: string): Promise<void> {
  const found = await run('sh', ['-c', 'command -v node'], { cwd: work, env: environmentOf() })
  const node = found.out.trim()
  const version = node === '' ? undefined : await versionOf(node)
  if (version === undefined || isEnough(version))
    return skip('a Node that is too old', `the machine has ${version ?? 'none'}`)
  const name = `Node ${version} and the package's own`
  await checkCommand({ folder: on, node, name }, check)
  await checkProgram('any', { folder: on, node, name }, check)
  await checkOrphan({ folder: on, node, name }, check)
  const flashnode = join(off, 'node_modules/.bin/flashnode')
  const refused = await run(node, [flashnode, 'dev'], { cwd: off })
  check(
    `Node ${version} without the package's own Node: the command names the fix`,
    refused.status === 1 &&
      /^flashnode: Node 24\.12 or later is needed, .*npm rebuild node/.test(refused.err),
    refused.err.trim(),
  )
  const rebuilt = await run('npm', ['rebuild', 'node', '--ignore-scripts=false'], { cwd: off })
  const after = await run(node, [flashnode, '--version'], { cwd: off })
  check('the named fix works', after.status === 0, `${rebuilt.err}${after.err}`.trim())
}

async function checkNode26(off: string): Promise<void> {
  const node = join(await install('newest', ['node@26'], 'on'), 'node_modules/node/bin/node')
  const version = await versionOf(node)
  if (version === undefined) return skip('Node 26', 'npm gives none')
  const where = { folder: off, node, name: `Node ${version}` }
  await checkCommand(where, check)
  for (const program of ['any', 'two'] as const) await checkProgram(program, where, check)
}

async function checkNode22(on: Project): Promise<void> {
  const node = join(await install('older', ['node@22'], 'on'), 'node_modules/node/bin/node')
  const version = await versionOf(node)
  if (version === undefined) return skip('Node 22', 'npm gives none')
  const name = `Node ${version} and the package's own`
  await checkCommand({ folder: on.folder, node, name }, check)
  await checkVitest(on, node, check)
}

const off = await install('off', [tarball, 'ethers@6.17.0', 'viem@2.57.20'], 'off')
await checkOwn(off)
if (values.short) await checkTooOld(off, await install('on', [tarball], 'on'))
else {
  await checkNode26(off)
  const vitestOn = await project('vitest', 'on')
  await checkNode22(vitestOn)
  await checkTooOld(off, vitestOn.folder)
  await checkVitest(await project('vitest', 'off'), own, check)
  for (const scripts of ['off', 'on'] as const)
    await checkHardhat(await project('hardhat', scripts), own, check)
}
await checkDeployment({ check, skip })
close()
