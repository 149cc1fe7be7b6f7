/**
 * This check runs the operators' commands `verify`, `compare` and `doctor` against planted faults.
 * Usage: npm run operate [-- --short] [--only SECTION,…] [--seed S]
 */
import { cpSync } from 'node:fs'
import { dirname } from 'node:path'
import { checks } from '../kit/checks.ts'
import { call, startNode } from '../kit/node.ts'
import { runOptions } from '../kit/run-options.ts'
import { headOf, startFollower, startLeader, temporary, until } from './follow/nodes.ts'
import { checkCompare } from './operate/compare.ts'
import { checkDoctor } from './operate/doctor.ts'
import { checkVerify } from './operate/verify.ts'

const { random, isShort, own } = runOptions(
  'operate',
  { full: 0, short: 0 },
  { only: { type: 'string' } },
)
/** This many rows of each column are spoilt for `verify`. */
const rows = isShort ? 1 : 3
const only = typeof own['only'] === 'string' ? own['only'].split(',') : undefined
/**
 * The load has this many transactions a second. It fills more blocks than a lazy state reaches
 * back.
 */
const RATE = 30
const BLOCKS = 20
const WITHIN_MS = 600_000

const { check, skip, close } = checks('operate')
const { full, lazy, leader, filled } = await fill()
const { node } = leader
const sections: Readonly<Record<string, () => Promise<void>>> = {
  compare: () => paused(() => checkCompare(node.url, filled, { check, skip })),
  doctor: () => checkDoctor(leader, { full, older: dirname(leader.genesis), check, random }),
  async verify() {
    await node.stop()
    await checkVerify({ full, lazy }, { check, random, rows })
  },
}
for (const [name, run] of Object.entries(sections))
  if (only?.includes(name) ?? true)
    await run().catch((error: Error) =>
      check(`the checks of ${name} run to their end`, false, error.stack),
    )
check('the node ends with 0', (await node.stop()) === 0)
close()

/** Runs while the chain is paused, because proofs exist for the newest blocks only. */
async function paused(run: () => Promise<void>): Promise<void> {
  await call(`${node.url}/`, 'dev_pause')
  await run()
  await call(`${node.url}/`, 'dev_resume')
}

/** Makes a closed directory of each kind, and a node on a copy of the full one. */
async function fill() {
  const lazy = temporary('lazy')
  const leader = await startLeader(random, RATE)
  const { url } = leader.node
  const follower = await startFollower(leader, {
    datadir: lazy,
    upstreams: [`${url}/`],
    feeds: [`${url.replace('http', 'ws')}/feed`],
    more: ['--state', 'lazy'],
  })
  const first = await headOf(follower.url)
  const isThere = await until(async () => (await headOf(follower.url)) >= first + BLOCKS, WITHIN_MS)
  check('the follower reaches the wanted number of blocks', isThere)
  await leader.load.stop()
  for (const each of [follower, leader.node]) check('a node ends with 0', (await each.stop()) === 0)
  const full = temporary('whole')
  const datadir = dirname(leader.genesis)
  cpSync(datadir, full, { recursive: true })
  const node = await startNode(['--datadir', datadir, '--rate-limit', 'off', '--pool-threads', '2'])
  // These blocks are in the middle of the load.
  const filled = `${first + 5}-${first + 7}`
  return { full, lazy, leader: { ...leader, node }, filled }
}
