/** The pool as the node uses it: its workers read the chain, each with a row of leases of its own. */
import type { ChainReader } from '../../engine/chain/types.ts'
import { isOutOfFiles } from '../../engine/storage/database/disk-advice.ts'
import type { OpenedData } from '../data/open.ts'
import type { NodeContext } from '../process/context.ts'
import { createCollecting } from '../thread/collecting.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import { createClaims, releaseEnded } from '../thread/rows.ts'
import type { PoolWorkerData } from './execute.ts'
import { createKeptLogs, readKeptLogs } from './kept-logs.ts'
import { createPool, type Pool, type PoolJob } from './pool.ts'

/** What a client's call took of a worker's processor. */
export type Spent = { readonly address: string; readonly cpuMs: number }
export type OpenedPool = {
  readonly pool: Pool
  readonly jobs: Inbox<PoolJob>
  readonly spent: Inbox<Spent>
  readonly keptLogs: () => ReturnType<typeof readKeptLogs>
}

/** Of one worker. */
const HEAP_MB = 512

export function openPool(
  { config, lifecycle, reporter, logOptions, fail }: NodeContext,
  { database, shared }: OpenedData,
  { reader, isLazy }: { readonly reader: ChainReader; readonly isLazy: boolean },
): OpenedPool {
  const { poolThreads: threads, limits, latest } = config
  const claims = createClaims(threads)
  const keptLogs = createKeptLogs(claims.length)
  const jobs = createInbox<PoolJob>()
  const spent = createInbox<Spent>()
  const workerData: PoolWorkerData = {
    ...{ node: shared, claims, limits, isLazy, latest, threads, keptLogs },
    ...{ log: logOptions, mishaps: reporter.shared },
  }
  const pool = createPool({
    filename: new URL('./execute.ts', import.meta.url).href,
    ...{ workerData, threads, limits },
    heapMb: HEAP_MB,
    now: () => performance.now(),
    newestRecord: reader.newestRecord,
    // It claims its row when its modules are there.
    isLoaded: (thread) => claims.includes(thread),
    onThreadEnded(thread) {
      const hadRow = releaseEnded({ database, views: shared.views, claims }, thread)
      if (hadRow && !lifecycle.isStopping) reporter.report('worker_replaced', { thread })
    },
    onProblem(error) {
      if (isOutOfFiles(error.message)) fail(`a pool thread cannot be started: ${error.message}`)
      else reporter.report('worker_failed', { err: error })
    },
    onBroken: (error) => fail(`no pool thread can be started: ${error.message}`),
    onJob: jobs.push,
    onSpent(address, cpuMs) {
      collecting.spent(cpuMs)
      spent.push({ address, cpuMs })
    },
  })
  const isIdle = () => pool.stats().busy === 0
  const collecting = createCollecting(pool.collect, isIdle)
  lifecycle.onStop('the collecting', collecting.stop)
  lifecycle.onStop('the pool', pool.stop)
  return { pool, jobs, spent, keptLogs: () => readKeptLogs(keptLogs) }
}
