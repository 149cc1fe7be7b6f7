/** The pool as the node uses it: its workers read the chain, each with a row of leases of its own. */
import type { ChainReader } from '../../engine/chain/types.ts'
import { isOutOfFiles } from '../../engine/storage/database/disk-advice.ts'
import type { OpenedData } from '../data/open.ts'
import type { NodeContext } from '../process/context.ts'
import { createCollecting } from '../thread/collecting.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import { type Claims, releaseEnded } from '../thread/rows.ts'
import { openClock } from '../thread/running-clock.ts'
import type { PoolWorkerData } from './execute.ts'
import { createKeptLogs, readKeptLogs } from './kept-logs.ts'
import { createPool, type Pool, type PoolJob } from './pool.ts'

/** Kept for the end of its threads, whatever the parts before it take. */
const STOP_MS = 300

/** What a client's call took of a worker's processor. */
export type Spent = { readonly address: string; readonly cpuMs: number }
export type OpenedPool = {
  readonly pool: Pool
  readonly jobs: Inbox<PoolJob>
  readonly spent: Inbox<Spent>
  readonly keptLogs: () => ReturnType<typeof readKeptLogs>
}

/** Where it stands among all that read. */
export type PoolPlace = {
  /** The row of its front, and what that reads the chain with. */
  readonly front: number
  readonly reader: ChainReader
  readonly claims: Claims
  readonly threads: number
  /** Of all pools. */
  readonly allThreads: number
}

/** Of one worker. */
const HEAP_MB = 512

export function openPool(
  { config, lifecycle, reporter, logOptions, fail }: NodeContext,
  { database, shared }: Pick<OpenedData, 'database' | 'shared'>,
  front: PoolPlace & { readonly isLazy: boolean },
): OpenedPool {
  const { reader, isLazy, claims, threads } = front
  const { limits, latest } = config
  const keptLogs = createKeptLogs(claims.words.length)
  const jobs = createInbox<PoolJob>()
  const spent = createInbox<Spent>()
  const workerData: PoolWorkerData = {
    ...{ node: shared, claims, limits, isLazy, latest, keptLogs },
    ...{ front: front.front, threads: front.allThreads },
    ...{ log: logOptions, mishaps: reporter.shared },
  }
  const pool = createPool({
    filename: new URL('./execute.ts', import.meta.url).href,
    ...{ workerData, threads, limits },
    heapMb: HEAP_MB,
    now: openClock(shared.clock),
    newestRecord: reader.newestRecord,
    // It claims its row when its modules are there.
    isLoaded: (thread) => claims.words.includes(thread),
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
  lifecycle.onStop('the pool', pool.stop, { leastMs: STOP_MS })
  return { pool, jobs, spent, keptLogs: () => readKeptLogs(keptLogs) }
}
