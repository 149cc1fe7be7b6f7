/** A pool thread: opens the chain for reading once, then runs the calls of each task. */
import { createRequire } from 'node:module'
import { threadId, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import type { LatestHead } from '../../engine/chain/types.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { ENGINE_NAMES } from '../../engine/evm/engines/names.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { createCollectingRunner } from '../../rpc/dispatch/collecting.ts'
import { createCallRunner } from '../../rpc/dispatch/worker-call.ts'
import type { MethodLimits } from '../../rpc/method/method.ts'
import { methods } from '../../rpc/methods/index.ts'
import { digestTransaction } from '../../rpc/methods/shared/digest.ts'
import { digestMessage } from '../../rpc/methods/shared/message-digest.ts'
import { proveSidecar } from '../../rpc/methods/shared/sidecar.ts'
import { verifyMethod } from '../../rpc/methods/shared/verify.ts'
import { verifyBlockMethod } from '../../rpc/methods/shared/verify-block.ts'
import type { LogOptions } from '../observe/log.ts'
import type { IncidentCounts, Reporter } from '../observe/reporter.ts'
import type { SharedCalling } from '../thread/messages.ts'
import { type Claims, claimRow } from '../thread/rows.ts'
import { openClock } from '../thread/running-clock.ts'
import { type LogRowsCacheStats, openLogRowsCache, reportLogRowsCache } from './log-rows-cache.ts'
import { exitOnUncaught, type PoolTask, serveTask, type TaskRunner } from './task.ts'

export type PoolWorkerData = {
  /** The worker claims its own `thread` row. */
  readonly node: Omit<SharedCalling, 'thread'>
  readonly claims: Claims
  /** Lease row of the front thread that shares its views with this worker. */
  readonly front: number
  /** Meaning of `latest` on the flashblocks endpoint. */
  readonly latest: LatestHead
  readonly limits: MethodLimits
  /** Number of threads that run calls, in all pools. */
  readonly threads: number
  readonly logRowsCache: LogRowsCacheStats
  /** State is fetched on first read. */
  readonly isLazy: boolean
  readonly log: LogOptions
  /** Incident counts of the process. */
  readonly incidents: IncidentCounts
}

let reporter: Reporter | undefined
const now = openClock((workerData as PoolWorkerData).node.clock)
const runner = openRunner(workerData as PoolWorkerData)

// The handler is installed after the start, because an earlier failure is a failed start.
exitOnUncaught((error) => openReporter().report('worker_failed', { err: error }))
const serve = (task: PoolTask) => serveTask(task, runner, now)

export { serve as default, serve as 'module.exports' }

function openRunner(worker: PoolWorkerData): TaskRunner {
  const { node, claims, limits, isLazy, latest } = worker
  const chain = chainSpec(node.chain)
  const thread = claimRow(claims, threadId)
  const logRows = openLogRowsCache(limits, worker.threads)
  const reader = openChainReader({
    views: node.views,
    store: openStore(attachDatabase(node.database)),
    chain,
    thread,
    front: worker.front,
    latest,
    logRows,
  })
  const engine = engineByName(node.engine, {
    onTrap: (reason) => openReporter().report('engine_trapped', { reason }),
  })
  const makeOther = () => engineByName(ENGINE_NAMES.find((name) => name !== node.engine)!)
  let other = engine.fallback?.engine
  const otherEngine = () => {
    other ??= makeOther()
    return other
  }
  const verifyCall = verifyMethod(methods, otherEngine)
  const verifyBlock = verifyBlockMethod(otherEngine)
  const createRunner = isLazy ? createCollectingRunner : createCallRunner
  const calls = createRunner({
    reader,
    chain,
    engine,
    limits,
    now,
    // Internal methods are added here, because clients cannot call them.
    methods: new Map([
      ...methods,
      [proveSidecar.name, proveSidecar],
      [digestTransaction.name, digestTransaction],
      [digestMessage.name, digestMessage],
      [verifyCall.name, verifyCall],
      [verifyBlock.name, verifyBlock],
    ]),
    onBug(error, method) {
      const { report, loggable } = openReporter()
      report('call_failed', { err: error, method: loggable(method) })
    },
  })
  // The modules stay loaded for every later use.
  return {
    ...calls,
    prepare: () => void makeOther(),
    endTask() {
      calls.endTask()
      reportLogRowsCache(worker.logRowsCache, thread - claims.first, logRows.stats)
    },
  }
}

/** Loads the log on first use, because its modules take a tenth of a thread's start. */
function openReporter() {
  const { createLog, loggable }: typeof import('../observe/log.ts') = createRequire(
    import.meta.url,
  )('../observe/log.ts')
  const { createReporter }: typeof import('../observe/reporter.ts') = createRequire(
    import.meta.url,
  )('../observe/reporter.ts')
  const { log, incidents } = workerData as PoolWorkerData
  reporter ??= createReporter(createLog(log), incidents)
  return { report: reporter.report, loggable }
}
