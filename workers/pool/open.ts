/** The pool as the node uses it: its workers read the chain, each with a row of leases of its own. */
import { createRequire } from 'node:module'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Gate } from '../../engine/storage/blocks/gate.ts'
import { isOutOfFiles } from '../../engine/storage/database/disk-advice.ts'
import type { OpenedData } from '../data/open.ts'
import type { NodeContext } from '../process/context.ts'
import { createCollecting } from '../thread/collecting.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import { type Claims, releaseEnded } from '../thread/rows.ts'
import { openClock } from '../thread/running-clock.ts'
import type { PoolWorkerData } from './execute.ts'
import { createKeptLogs, readKeptLogs } from './kept-logs.ts'
import type { Near, NearStats } from './near.ts'
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
  /** From here on the front runs short calls itself. Takes some 50 ms of its thread, which no start waits for. */
  openNear(): void
  readonly near: () => NearStats
}

/** What the front reads the chain with. */
export type FrontReading = {
  /** Its row. */
  readonly front: number
  readonly reader: ChainReader
  /** Before its store; undefined: the front runs no short calls. */
  readonly gate: Gate | undefined
}

/** Where it stands among all that read. */
export type PoolPlace = {
  readonly claims: Claims
  readonly threads: number
  /** Of all pools. */
  readonly allThreads: number
}

const NO_NEAR: NearStats = { answered: 0, passedOn: 0 }
/** Of one worker. */
const HEAP_MB = 512

export function openPool(
  context: NodeContext,
  { chain, database, shared }: Pick<OpenedData, 'chain' | 'database' | 'shared'>,
  front: FrontReading & PoolPlace & { readonly isLazy: boolean },
): OpenedPool {
  const { config, lifecycle, reporter, logOptions, fail } = context
  const { reader, isLazy, claims, threads } = front
  const { limits, latest } = config
  let near: Near | undefined
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
    near: () => near,
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
  return {
    ...{ pool, jobs, spent },
    keptLogs: () => readKeptLogs(keptLogs),
    openNear() {
      const { gate } = front
      near ??= gate && loadNear({ context, chain, reader, gate })
      if (near !== undefined) lifecycle.onStop('the engine of the front', near.close)
    },
    near: () => near?.stats ?? NO_NEAR,
  }
}

/** An engine of the front's own. */
function loadNear(options: {
  readonly context: NodeContext
  readonly chain: ChainSpec
  readonly reader: ChainReader
  readonly gate: Gate
}): Near {
  const { context, ...reading } = options
  const { reporter } = context
  const load = createRequire(import.meta.url)
  const { createNear } = load('./near.ts') as typeof import('./near.ts')
  const { methods } = load(
    '../../rpc/methods/index.ts',
  ) as typeof import('../../rpc/methods/index.ts')
  return createNear({
    ...reading,
    ...{ methods, limits: context.config.limits },
    now: () => performance.now(),
    onBug: (error, method) => reporter.report('call_failed', { err: error, method }),
    onTrap: (reason) => reporter.report('engine_trapped', { reason }),
  })
}
