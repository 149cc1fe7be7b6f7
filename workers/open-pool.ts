/** The pool as the node uses it: its workers read the chain, each with a row of leases of its own. */
import type { ChainReader } from '../engine/chain/types.ts'
import type { NodeContext } from './context.ts'
import type { PoolWorkerData } from './execute.ts'
import { createInbox, type Inbox } from './inbox.ts'
import type { OpenedData } from './open.ts'
import { createPool, type Pool, type PoolJob } from './pool.ts'
import { createClaims, releaseEnded } from './threads.ts'

export type OpenedPool = { readonly pool: Pool; readonly jobs: Inbox<PoolJob> }

/** Of one worker. */
const HEAP_MB = 512

export function openPool(
  { config, lifecycle, log, logOptions, fail }: NodeContext,
  { database, shared }: OpenedData,
  reader: ChainReader,
): OpenedPool {
  const { poolThreads: threads, limits } = config
  const claims = createClaims(threads)
  const jobs = createInbox<PoolJob>()
  const workerData: PoolWorkerData = { node: shared, claims, limits, log: logOptions }
  const pool = createPool({
    filename: new URL('./execute.ts', import.meta.url).href,
    ...{ workerData, threads, limits },
    heapMb: HEAP_MB,
    newestRecord: reader.newestRecord,
    // It claims its row when its modules are there.
    isLoaded: (thread) => claims.includes(thread),
    onThreadEnded(thread) {
      const hadRow = releaseEnded({ database, views: shared.views, claims }, thread)
      if (hadRow && !lifecycle.isStopping)
        log.warn({ thread }, 'a pool thread ended and is replaced')
    },
    onProblem: (error) => log.error({ err: error }, 'a pool thread failed'),
    onBroken: (error) => fail(`no pool thread can be started: ${error.message}`),
    onJob: jobs.push,
  })
  lifecycle.onStop('the pool', pool.stop)
  return { pool, jobs }
}
