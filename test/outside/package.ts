/**
 * The package as who installs it has it: what `npm run tarball` makes, installed from the registry into empty folders with install scripts on and off,
 * run by each Node that is at hand: the machine's, where it is too old with the package's own, the project's, and Node 26.
 * Usage: npm run package
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isEnough } from '../../workers/process/node-version.ts'
import { checks } from '../kit/checks.ts'
import { checkCommand, checkPage } from './package/command.ts'
import { checkDeployment } from './package/deploy.ts'
import { checkHardhat, checkVitest, project } from './package/examples.ts'
import { environmentOf, install, pack, run, versionOf, work } from './package/places.ts'
import { checkOrphan, checkProgram, checkTypes } from './package/programs.ts'

/** Bytes of the packed file: nothing that is not needed, 2026-11: 702,000. */
const MOST_BYTES = 1_000_000

const { check, skip, close } = checks('package')
const tarball = await pack()
const listed = (await run('tar', ['-tzf', tarball], { cwd: work })).out.trim().split('\n')
const strange = listed.filter(
  (name) =>
    !/^package\/(dist\/(engine|rpc|workers)\/|(package\.json|README\.md|LICENSE|CHANGELOG\.md)$)/.test(
      name,
    ) ||
    (/\.ts$/.test(name) && !/\.d\.ts$|^package\/dist\/rpc\/page\//.test(name)) ||
    /\.sol$|\.test\.|prepare\.js$/.test(name),
)
check('the file holds what runs and nothing else', strange.length === 0, strange.join(' '))
const { size } = statSync(tarball)
check('it is small', size < MOST_BYTES, `${listed.length} files, ${size} bytes`)
const packed = JSON.parse(
  (await run('tar', ['-xOzf', tarball, 'package/package.json'], { cwd: work })).out,
)
check('npm finds no script of ours to warn of', packed.scripts === undefined)
check(
  'it is what the checkout is',
  packed.name === 'flashnode' && packed.devDependencies === undefined,
)
const { private: isPrivate } = JSON.parse(readFileSync('package.json', 'utf8'))
check('nobody publishes it by mistake', isPrivate === true)

// Two at a time: more wait for each other's disk. The folder that is empty is `off`.
const [[off, vitestOn, newest], [vitestOff, hardhatOff, hardhatOn, older]] = await Promise.all([
  (async () =>
    [
      await install('off', [tarball, 'ethers@6.17.0', 'viem@2.57.20'], 'off'),
      await project('vitest', 'on'),
      await install('newest', ['node@26'], 'on'),
    ] as const)(),
  (async () =>
    [
      await project('vitest', 'off'),
      await project('hardhat', 'off'),
      await project('hardhat', 'on'),
      await install('older', ['node@22'], 'on'),
    ] as const)(),
])
const on = vitestOn.folder
const own = process.execPath
await checkCommand({ folder: off, node: own, name: `Node ${process.versions.node}` }, check)
await checkPage(off, check)
await checkTypes(off, check)
for (const program of ['any', 'two', 'libraries'] as const)
  await checkProgram(program, { folder: off, node: own, name: process.version }, check)

const node26 = join(newest, 'node_modules/node/bin/node')
const version26 = await versionOf(node26)
if (version26 === undefined) skip('Node 26', 'npm gives none')
else {
  const where = { folder: off, node: node26, name: `Node ${version26}` }
  await checkCommand(where, check)
  for (const program of ['any', 'two'] as const) await checkProgram(program, where, check)
}

const machines = (
  await run('sh', ['-c', 'command -v node'], { cwd: work, env: environmentOf() })
).out.trim()
const version = machines === '' ? undefined : await versionOf(machines)
if (version === undefined || isEnough(version))
  skip('a Node that is too old', `the machine has ${version ?? 'none'}`)
else {
  const name = `Node ${version} and the package's own`
  await checkCommand({ folder: on, node: machines, name }, check)
  await checkProgram('any', { folder: on, node: machines, name }, check)
  await checkOrphan({ folder: on, node: machines, name }, check)
  const refused = await run(machines, [join(off, 'node_modules/.bin/flashnode'), 'dev'], {
    cwd: off,
  })
  check(
    `Node ${version} and none of the package's own: it says what to do`,
    refused.status === 1 &&
      /^flashnode: Node 24\.12 or later is needed, .*npm rebuild node/.test(refused.err),
    refused.err.trim(),
  )
  const rebuilt = await run('npm', ['rebuild', 'node', '--ignore-scripts=false'], { cwd: off })
  const after = await run(machines, [join(off, 'node_modules/.bin/flashnode'), '--version'], {
    cwd: off,
  })
  check('and what it says helps', after.status === 0, `${rebuilt.err}${after.err}`.trim())
}
const node22 = join(older, 'node_modules/node/bin/node')
const version22 = await versionOf(node22)
if (version22 === undefined) skip('Node 22', 'npm gives none')
else {
  const name = `Node ${version22} and the package's own`
  await checkCommand({ folder: on, node: node22, name }, check)
  await checkVitest(vitestOn, node22, check)
}
await checkVitest(vitestOff, own, check)
await checkHardhat(hardhatOff, own, check)
await checkHardhat(hardhatOn, own, check)
await checkDeployment({ check, skip })
close()
