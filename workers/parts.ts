/** Everything a node is made of, opened and not yet connected to its clients. */
import { randomBytes } from 'node:crypto'
import { openChainReader } from '../engine/chain/reader.ts'
import type { ChainReader } from '../engine/chain/types.ts'
import { type Journal, openJournal } from '../engine/storage/journal.ts'
import { openStore } from '../engine/storage/store.ts'
import { clearThread } from '../engine/views/arena.ts'
import { createFeedHub, type FeedHub } from '../rpc/feed.ts'
import { methods } from '../rpc/methods/index.ts'
import { type ChainThreads, startChainThreads } from './chain-threads.ts'
import type { NodeContext } from './context.ts'
import type { PoolWorkerData } from './execute.ts'
import type { Front } from './front.ts'
import { createHealth, type Health } from './health.ts'
import type { ToSequencer } from './messages.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { onKeeper, onWriter } from './on-messages.ts'
import type { OpenedData } from './open.ts'
import { createPool, type Pool } from './pool.ts'
import type { Thread } from './thread.ts'
import { createClaims, FRONT_ROW, rowOfEnded } from './threads.ts'
import { createTransactions, type Transactions } from './transactions.ts'

export type Parts = OpenedData & {
  readonly reader: ChainReader
  readonly pool: Pool
  readonly threads: ChainThreads
  readonly transactions: Transactions
  /** Of accepted transactions. */
  readonly journal: Journal
  readonly feed: FeedHub | undefined
  /** What the node's own writer shows at /feed. */
  readonly feedToken: string
  readonly health: Health
  readonly metrics: Metrics
  /** What is opened after the first messages may come. */
  readonly later: { front?: Front; sequencer?: Thread<ToSequencer> }
}

/** Of one worker. */
const HEAP_MB = 512
/** The journal also has what is included and not yet final, beside all that the pool may hold. */
const JOURNAL_BYTES = 512 * 1024 * 1024
const PROBE_MS = 3_000

export const now = (): number => performance.now()

/** Starts every thread at once: each takes a while to load. */
export function openParts(context: NodeContext, data: OpenedData): Parts {
  const { config, lifecycle } = context
  const { limits } = config
  const isDev = config.command === 'dev'
  // Closed after the writer, whose publishes may rewrite it.
  const journal = openJournal(data.directory.transactions, JOURNAL_BYTES)
  lifecycle.onStop('the journal of transactions', journal.close)
  const threads = startChainThreads(context, data, {
    onWriter: (message) => onWriter(message, parts, context),
    onKeeper: (message) => onKeeper(message, parts, context),
  })
  const { chain } = data
  const store = openStore(data.database)
  const reader = openChainReader({ views: data.shared.views, store, chain, thread: FRONT_ROW })
  const { transactionBytes } = limits
  const transactions = createTransactions({ reader, chain, journal, transactionBytes, now })
  const feedToken = randomBytes(32).toString('hex')
  const feed = createFeedHub({
    maxSubscribers: limits.feedSubscribers,
    maxQueuedBytes: limits.feedQueueBytes,
    token: feedToken,
  })
  const later: Parts['later'] = {}
  const pool = openPool(context, data, { reader, onJob: (job) => metrics.job(job) })
  const metrics = createMetrics(
    {
      pool: pool.stats,
      holds: () => later.front?.holds() ?? {},
      feed: () => ({ subscribers: feed.subscribers, ...feed.counts }),
      transactionPool: transactions.stats,
      front: () => later.front?.stats() ?? {},
    },
    now,
  )
  const health = createHealth({
    now,
    headMs: isDev ? Math.max(10_000, 5 * config.blockTimeMs) : undefined,
    feedMs: isDev ? Math.max(1_000, 3 * config.flashblockTimeMs) : undefined,
    probe: () => probe(pool),
  })
  const served = { feed: isDev ? feed : undefined, feedToken }
  const opened = { reader, pool, threads, transactions, journal, health, metrics, later }
  const parts: Parts = { ...data, ...opened, ...served }
  return parts
}

function openPool(
  { config, lifecycle, log, logOptions, fail }: NodeContext,
  { database, shared }: OpenedData,
  { reader, onJob }: { readonly reader: ChainReader; readonly onJob: Metrics['job'] },
): Pool {
  const claims = createClaims(config.poolThreads)
  const workerData: PoolWorkerData = {
    node: shared,
    claims,
    limits: config.limits,
    log: logOptions,
  }
  const pool = createPool({
    filename: new URL('./execute.ts', import.meta.url).href,
    workerData,
    threads: config.poolThreads,
    limits: config.limits,
    heapMb: HEAP_MB,
    newestRecord: reader.newestRecord,
    onThreadEnded(thread) {
      database.threadEnded(thread)
      const claim = rowOfEnded(claims, thread)
      if (claim === undefined) return
      // Only now: until its end the worker may have read.
      clearThread(shared.views, claim.row)
      claim.free()
      if (!lifecycle.isStopping) log.warn({ thread }, 'a pool thread ended and is replaced')
    },
    onProblem: (error) => log.error({ err: error }, 'a pool thread failed'),
    onBroken: (error) => fail(`no pool thread can be started: ${error.message}`),
    onJob,
  })
  lifecycle.onStop('the pool', pool.stop)
  return pool
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
    signal: new AbortController().signal,
  })
  if ('error' in reply) throw new Error(reply.error.message)
}
