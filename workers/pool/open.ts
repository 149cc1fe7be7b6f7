/** Opens the node's pool. Its workers read the chain, each with its own row of the lease table. */
import type { ChainReader } from '../../engine/chain/types.ts'
import { isOutOfFiles } from '../../engine/storage/database/disk.ts'
import type { OpenedData } from '../data/open.ts'
import type { NodeContext } from '../process/context.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import { type Claims, releaseEnded } from '../thread/rows.ts'
import { openClock } from '../thread/running-clock.ts'
import type { PoolWorkerData } from './execute.ts'
import { createLogRowsCacheStats, readLogRowsCacheStats } from './log-rows-cache.ts'
import { createPool, type Pool, type PoolJob } from './pool.ts'

/**
 * Time reserved for stopping the pool's threads, however long the earlier parts of the stop take.
 */
const STOP_MS = 300

/** Processor time of a worker that a client's call used. */
export type Spent = { readonly address: string; readonly cpuMs: number }
export type OpenedPool = {
  readonly pool: Pool
  readonly jobs: Inbox<PoolJob>
  readonly spent: Inbox<Spent>
  readonly logRowsCache: () => ReturnType<typeof readLogRowsCacheStats>
}

/** The pool's share of the threads that read the chain. */
export type PoolReader = {
  /** Row of the front thread, and the reader that it uses. */
  readonly front: number
  readonly reader: ChainReader
  readonly claims: Claims
  readonly threads: number
  /** Number of threads of all pools. */
  readonly allThreads: number
}

/** Heap limit of one worker. */
const HEAP_MB = 512

export function openPool(
  { config, lifecycle, reporter, logOptions, fail }: NodeContext,
  { database, shared }: Pick<OpenedData, 'database' | 'shared'>,
  front: PoolReader & { readonly isLazy: boolean },
): OpenedPool {
  const { reader, isLazy, claims, threads } = front
  const { limits, latest } = config
  const logRowsCache = createLogRowsCacheStats(claims.words.length)
  const jobs = createInbox<PoolJob>()
  const spent = createInbox<Spent>()
  const workerData: PoolWorkerData = {
    node: shared,
    claims,
    limits,
    isLazy,
    latest,
    logRowsCache,
    front: front.front,
    threads: front.allThreads,
    log: logOptions,
    incidents: reporter.shared,
  }
  const pool = createPool({
    filename: new URL('./execute.ts', import.meta.url).href,
    workerData,
    threads,
    limits,
    heapMb: HEAP_MB,
    now: openClock(shared.clock),
    newestSnapshot: reader.newestSnapshot,
    // A worker claims its row once its modules are loaded.
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
  lifecycle.onStop('the garbage collection', collecting.stop)
  lifecycle.onStop('the pool', pool.stop, { minMs: STOP_MS })
  return { pool, jobs, spent, logRowsCache: () => readLogRowsCacheStats(logRowsCache) }
}

interface Collecting {
  /** Reports the processor time of a worker that a call has taken. */
  spent(cpuMs: number): void
  stop(): void
}

/** A call that takes less leaves little garbage. */
const LONG_MS = 20
/** Delay after the last long call. */
const QUIET_MS = 2_000

/**
 * Collects the heaps of idle threads after long work, because V8 does not collect a heap on which
 * nobody allocates. A thread that has traced a block would retain hundreds of megabytes.
 * @param isIdle tells whether no call waits or runs
 */
function createCollecting(collect: () => void, isIdle: () => boolean): Collecting {
  let timer: NodeJS.Timeout | undefined
  function check(): void {
    timer = isIdle() ? undefined : setTimeout(check, BUSY_MS).unref()
    if (timer === undefined) collect()
  }
  return {
    spent(cpuMs) {
      if (cpuMs < LONG_MS) return
      clearTimeout(timer)
      timer = setTimeout(check, QUIET_MS).unref()
    },
    stop: () => clearTimeout(timer),
  }
}

/** Retry interval while the pool is busy; between light calls there is always an idle moment. */
const BUSY_MS = 50
