/** Everything a node is made of, opened and not yet connected to its clients. */
import { randomBytes } from 'node:crypto'
import type { ChainReader } from '../engine/chain/types.ts'
import { createFeedHub, type FeedHub } from '../rpc/feed.ts'
import { methods } from '../rpc/methods/index.ts'
import type { ChainThreads } from './chain-threads.ts'
import type { NodeContext } from './context.ts'
import { createDeposits, type Deposits } from './deposits.ts'
import { createFailing, type Failing } from './failing.ts'
import type { Front } from './front.ts'
import { createHealth, type Health } from './health.ts'
import type { Heap } from './heaps.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { onKeeper, onWriter } from './on-messages.ts'
import type { OpenedData } from './open.ts'
import type { OpenedPool } from './open-pool.ts'
import type { Pool } from './pool.ts'
import { createProver } from './prover.ts'
import { createTransactions, type Transactions } from './transactions.ts'

/** What runs already while the main thread loads the rest. */
export type StartedNode = OpenedData &
  OpenedPool & {
    readonly threads: ChainThreads
    readonly reader: ChainReader
    readonly heaps: () => Promise<readonly Heap[]>
  }
export type Parts = StartedNode & {
  readonly transactions: Transactions
  /** `dev` only. */
  readonly deposits: Deposits | undefined
  readonly feed: FeedHub | undefined
  /** What the node's own writer shows at /feed. */
  readonly feedToken: string
  /** The writer has joined /feed. */
  readonly isFollowed: Promise<void>
  readonly health: Health
  readonly metrics: Metrics
  readonly failing: Failing
  /** What is opened after the first messages may come. */
  readonly later: { front?: Front }
}

const PROBE_MS = 3_000

export const now = (): number => performance.now()

/** Opens the rest, and hears what the threads have said and say. */
export function openParts(context: NodeContext, started: StartedNode): Parts {
  const { config } = context
  const { limits } = config
  const isDev = config.command === 'dev'
  const { chain, reader, pool, jobs, journal, threads } = started
  const feedToken = randomBytes(32).toString('hex')
  const followed = Promise.withResolvers<void>()
  const feed = createFeedHub({
    maxSubscribers: limits.feedSubscribers,
    maxQueuedBytes: limits.feedQueueBytes,
    token: feedToken,
    onOwn: followed.resolve,
  })
  const later: Parts['later'] = {}
  const health = createHealth({
    now,
    headMs: isDev ? Math.max(10_000, 5 * config.blockTimeMs) : undefined,
    feedMs: isDev ? Math.max(1_000, 3 * config.flashblockTimeMs) : undefined,
    probe: () => probe(pool),
  })
  const failing = createFailing(context, health)
  const transactions = createTransactions({
    ...{ reader, chain, journal, limits, now },
    prove: createProver({ executor: pool, patienceMs: limits.sidecarMs, now }),
    onFailure: failing,
  })
  const metrics = createMetrics(
    {
      pool: pool.stats,
      holds: () => later.front?.holds() ?? {},
      feed: () => ({ subscribers: feed.subscribers, ...feed.counts }),
      transactionPool: transactions.stats,
      front: () => later.front?.stats() ?? {},
      heaps: started.heaps,
    },
    now,
  )
  const served = { feed: isDev ? feed : undefined, feedToken, isFollowed: followed.promise }
  const { sequencer } = threads
  const deposits = sequencer && createDeposits(sequencer, config.blockTimeMs)
  const parts: Parts = {
    ...started,
    ...served,
    deposits,
    transactions,
    health,
    metrics,
    failing,
    later,
  }
  jobs.open(metrics.job)
  threads.fromKeeper.open((message) => onKeeper(message, parts, context))
  threads.fromWriter.open((message) => onWriter(message, parts, context))
  return parts
}

/** A call that runs nothing, but takes the whole way: queue, worker, lease, state. */
async function probe(pool: Pool): Promise<void> {
  const method = methods.get('eth_call')!
  const params = [{ to: `0x${'00'.repeat(20)}`, gas: '0x5208' }, 'latest']
  const reply = await pool.execute({
    method,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    record: undefined,
    deadline: now() + PROBE_MS,
    client: { isGone: false },
  })
  if ('error' in reply) throw new Error(reply.error.message)
}
