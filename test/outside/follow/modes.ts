/** The three modes of state must give the leader's responses at the same flashblock. */
import { HANGS_MS } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { checkCoherence } from './checkers.ts'
import { createComparer } from './compare.ts'
import { enrichedByFollower } from './enriched.ts'
import { headOf, readiness, startFollower, startLeader, temporary, until } from './nodes.ts'
import { type Around, compareFor, type Section, summaryOf } from './section.ts'
import { SERVICE_METHODS } from './service-methods.ts'
import { startProxy, startRelay } from './wires.ts'

type Mode = {
  readonly name: 'whole' | 'proven' | 'trusted'
  readonly flags: readonly string[]
  /** The options of the upstream. */
  readonly proxy: Omit<Parameters<typeof startProxy>[0], 'target'>
  /** Afterwards a reader applies the enriched feed, under faults of the followed feed. */
  readonly isEnriched?: boolean
  /** Afterwards a third-party checker reads the follower and the chain's own node. */
  readonly isChecked?: boolean
}

const COMPARED_MS = 600_000

async function runMode({ name, flags, proxy, ...also }: Mode, around: Around): Promise<void> {
  const { leader, random, check, comparisons } = around
  const upstream = await startProxy({ ...proxy, target: `${leader.node.url}/` })
  const feed = await startRelay({ target: `${leader.node.url.replace('http', 'ws')}/feed` })
  const follower = await startFollower(leader, {
    datadir: temporary(name),
    upstreams: [upstream.url],
    feeds: [feed.url],
    more: flags,
  })
  try {
    const oldest = Number(
      (
        (await call(`${follower.url}/`, 'eth_getBlockByNumber', ['earliest', false])) as {
          number: string
        }
      ).number,
    )
    const isThere = await until(
      async () => (await headOf(follower.url)) >= (await headOf(leader.node.url)) - 2,
      HANGS_MS,
    )
    check(
      `${name}: the follower reaches the head`,
      isThere,
      `ready after ${Math.round(follower.readyMs)} ms`,
    )
    const comparer = createComparer({
      leader: leader.node.url,
      follower: follower.url,
      world: leader.load.world,
      random,
      isLazy: name !== 'whole',
      oldest,
    })
    const compared = await compareFor(comparer, {
      count: comparisons,
      pending: comparisons / 3,
      withinMs: COMPARED_MS,
    })
    check(
      `${name}: ${comparisons} responses equal those of the chain's own node`,
      compared.total >= comparisons && compared.differences.length === 0,
      summaryOf(compared),
    )
    check(
      `${name}: at least a third of the comparisons are on the pending block`,
      compared.pending >= comparisons / 3,
      String(compared.pending),
    )
    const refusals = Object.values(compared.refused).reduce((sum, times) => sum + times, 0)
    check(`${name}: the follower refused no request`, refusals === 0, String(refusals))
    const { status, mode } = (await readiness(follower.url)) as { status: string; mode?: string }
    check(
      `${name}: /readyz reports ready and the mode`,
      status === 'ready' && mode === name,
      `${status} ${mode}`,
    )
    console.log(`   upstream: ${JSON.stringify(await upstream.counts())}`)
    if (also.isChecked) {
      await checkCoherence(`${name}: fb-coherence on a follower`, follower.url, around)
      await checkCoherence("fb-coherence on the chain's own node", leader.node.url, around)
    }
    if (also.isEnriched) await enrichedByFollower(around, { name, url: follower.url, feed })
    check(`${name}: the follower ends with 0`, (await follower.stop()) === 0)
  } catch (error) {
    console.log(follower.output().slice(-3_000))
    throw error
  } finally {
    await follower.stop('SIGKILL')
    await Promise.all([upstream.stop(), feed.stop()])
  }
}

const section =
  (mode: Mode): Section =>
  (around) =>
    runMode(mode, around)

const FULL_STATE: Mode = { name: 'whole', flags: ['--state', 'whole'], proxy: {} }
const PROVEN: Mode = { name: 'proven', flags: ['--state', 'lazy'], proxy: {} }

/**
 * Follows a separate chain of subblocks. No subblock states a hash, and only the next block shows
 * that a block is over.
 */
async function subblocks(around: Around): Promise<void> {
  const flags = ['--feed-form', 'subblocks']
  const leader = await startLeader(around.random, SUBBLOCKS_RATE, flags)
  const check: Around['check'] = (what, ...result) => around.check(`subblocks, ${what}`, ...result)
  const comparisons = Math.ceil(around.comparisons / 2)
  try {
    const run = (mode: Mode) => runMode(mode, { ...around, leader, check, comparisons })
    const ended = await Promise.allSettled([{ ...FULL_STATE, isChecked: true }, PROVEN].map(run))
    for (const one of ended) if (one.status === 'rejected') throw one.reason
    await leader.load.stop()
    check('the chain ends with 0', (await leader.node.stop()) === 0)
  } finally {
    await leader.node.stop('SIGKILL')
  }
}
/** The load has this many transactions a second. */
const SUBBLOCKS_RATE = 8

export const MODES = {
  whole: section({ ...FULL_STATE, isEnriched: true }),
  proven: section({ ...PROVEN, isEnriched: true }),
  subblocks,
  trusted: section({
    name: 'trusted',
    flags: ['--state', 'lazy', '--trust-upstream'],
    proxy: { methods: SERVICE_METHODS, callsPerSecond: 100, delayMs: 150 },
  }),
}
