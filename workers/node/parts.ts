/** Everything a node is made of, opened and not yet connected to its clients. */
import { randomBytes } from 'node:crypto'
import type { ChainReader } from '../../engine/chain/types.ts'
import { createFeedHub, type FeedHub } from '../../rpc/feed/hub.ts'
import { methods } from '../../rpc/methods/index.ts'
import { OWN_CLIENT } from '../../rpc/seam/executor.ts'
import type { OpenedData } from '../data/open.ts'
import { createDigester } from '../front/digester.ts'
import type { Front } from '../front/front.ts'
import { createProver } from '../front/prover.ts'
import { createTransactions, type Transactions } from '../front/transactions.ts'
import { createVerifier, mismatchFiles, type Verifier } from '../front/verifier.ts'
import { createWhitelist } from '../front/whitelist.ts'
import { createHealth, type Health } from '../observe/health.ts'
import { createLoad, type Load } from '../observe/load.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import type { OpenedPool } from '../pool/open.ts'
import type { Pool } from '../pool/pool.ts'
import type { NodeContext } from '../process/context.ts'
import { createFailing, type Failing } from '../process/failing.ts'
import type { Heap } from '../thread/heaps.ts'
import type { ChainThreads } from './chain-threads.ts'
import { onKeeper, onWriter } from './on-messages.ts'
import type { ConnectedSource, Role } from './role.ts'

/** What runs already while the main thread loads the rest. */
export type StartedNode = OpenedData &
  OpenedPool & {
    readonly threads: ChainThreads
    readonly reader: ChainReader
    readonly heaps: () => Promise<readonly Heap[]>
  }
export type Parts = StartedNode & {
  readonly transactions: Transactions
  readonly feed: FeedHub
  readonly health: Health
  readonly metrics: Metrics
  readonly load: Load
  readonly failing: Failing
  /** The pool, for clients. */
  readonly executor: Verifier
  /** What is opened after the first messages may come. */
  readonly later: { front?: Front; source?: ConnectedSource }
}

const PROBE_MS = 3_000

/** Tells this run of the node from others. */
const runName = (): string => `0x${randomBytes(8).toString('hex')}`

export const now = (): number => performance.now()

/** Opens the rest, and hears what the threads have said and say. */
export function openParts(
  context: NodeContext,
  started: StartedNode,
  { readiness, mode, isGuest, isQuiet }: Pick<Role, 'readiness' | 'mode' | 'isGuest' | 'isQuiet'>,
): Parts {
  const { config, reporter } = context
  const { limits } = config
  const { chain, reader, pool, jobs, journal, threads } = started
  const feed = createFeedHub(limits, runName())
  const later: Parts['later'] = {}
  const health = createHealth({
    now,
    ...readiness,
    mode,
    probe: () => probe(pool),
    source: () => later.source?.state?.(),
  })
  const failing = createFailing({ report: reporter.report, fail: context.fail }, health)
  const transactions = createTransactions({
    ...{ reader, chain, journal, limits, now },
    prove: createProver({ executor: pool, limits, now }),
    makeDigest: createDigester({ executor: pool, limits, now }),
    isListed: createWhitelist(chain, { executor: pool, limits, now }),
    onFailure: failing,
  })
  const verifier = createVerifier({
    ...{ executor: pool, limits, now, share: config.verifySample, random: Math.random },
    report: reporter.report,
    keep: mismatchFiles(started.directory.path),
    distrust(reason) {
      health.failed(reason)
      threads.writer.post({ type: 'distrust', reason })
    },
  })
  const metrics = createMetrics(
    {
      ...{ pool: pool.stats, keptLogs: started.keptLogs, near: started.near },
      holds: () => later.front?.holds() ?? {},
      feed: () => ({ subscribers: feed.subscribers, ...feed.counts }),
      txpool: transactions.stats,
      front: () => later.front?.stats() ?? {},
      heaps: started.heaps,
      mishaps: reporter.counts,
      verified: verifier.counts,
    },
    now,
    { mode, isGuest },
  )
  const load = createLoad(pool.stats, now)
  const parts: Parts = {
    ...started,
    ...{ load, feed, transactions, health, metrics, failing, later, executor: verifier },
  }
  jobs.open((job) => {
    metrics.job(job)
    load.queued(job.queuedMs)
  })
  threads.fromKeeper.open((message) => onKeeper(message, parts, context))
  const isTold = isQuiet !== true && process.stdout.isTTY
  threads.fromWriter.open((message) => onWriter(message, { ...parts, isTold }, context))
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
    client: OWN_CLIENT,
  })
  if ('error' in reply) throw new Error(reply.error.message)
}
