/**
 * The examples of docs/examples run unchanged, with the packed file at the path that they expect.
 */
import { cpSync, existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Check } from '../../kit/checks.ts'
import { startInstalled } from './command.ts'
import { environmentOf, install, run, type Scripts, versionOf, work } from './install.ts'

export type Project = { readonly folder: string; readonly scripts: Scripts }

export async function project(name: 'vitest' | 'hardhat', scripts: Scripts): Promise<Project> {
  const examples = 'docs/examples'
  const folder = `${examples}/${name}-${scripts}`
  cpSync(join(examples, name), join(work, folder), { recursive: true, filter: isSource })
  return { folder: await install(folder, [], scripts, process.execPath), scripts }
}

/** Packages that somebody installed to try an example are not copied. */
const isSource = (path: string) => !/node_modules|package-lock/.test(path)

/** Makes an environment in which the project's scripts find this Node first. */
const withNode = (node: string) => environmentOf(dirname(node))

export async function checkVitest(
  { folder, scripts }: Project,
  node: string,
  check: Check,
): Promise<void> {
  for (const pool of ['forks', 'threads']) {
    const argv = [join(folder, 'node_modules/vitest/vitest.mjs'), 'run', `--pool=${pool}`]
    const { status, out, err } = await run(node, argv, { cwd: folder, env: withNode(node) })
    check(
      `the vitest example: install scripts ${scripts}, pool ${pool}, Node ${await versionOf(node)}`,
      status === 0 && /3 passed/.test(out),
      status === 0 ? '' : `${out}${err}`.slice(-800),
    )
  }
}

export async function checkHardhat(
  { folder, scripts }: Project,
  node: string,
  check: Check,
): Promise<void> {
  const hasOwnNode = existsSync(join(folder, 'node_modules/node/bin/node'))
  check(
    `install scripts ${scripts}: the package has its own Node exactly when they are on`,
    hasOwnNode === (scripts === 'on'),
  )
  const running = await startInstalled({ folder, node })
  const env = {
    ...withNode(node),
    RPC_URL: `${running.url}/flashblocks`,
    HARDHAT_DISABLE_TELEMETRY_PROMPT: 'true',
  }
  const { status, out, err } = await run('npm', ['run', '-s', 'deploy'], { cwd: folder, env })
  check(
    `the Hardhat example runs: install scripts ${scripts}`,
    status === 0 && /it counts: 1/.test(out),
    status === 0 ? '' : `${out}${err}`.slice(-800),
  )
  check('the node of the Hardhat example ends with 0', (await running.stop('SIGTERM')) === 0)
}
