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
import type { MishapCounts, Reporter } from '../observe/reporter.ts'
import type { SharedCalling } from '../thread/messages.ts'
import { type Claims, claimRow } from '../thread/rows.ts'
import { openClock } from '../thread/running-clock.ts'
import { type KeptLogs, openKeptLogs, tellKeptLogs } from './kept-logs.ts'
import { exitOnUncaught, type PoolTask, serveTask, type TaskRunner } from './task.ts'

export type PoolWorkerData = {
  /** Its `thread` is claimed by the worker itself. */
  readonly node: Omit<SharedCalling, 'thread'>
  readonly claims: Claims
  /** Row of the front that lends it views. */
  readonly front: number
  /** What the tag is on the flashblocks endpoint. */
  readonly latest: LatestHead
  readonly limits: MethodLimits
  /** That run calls, in all pools. */
  readonly threads: number
  readonly keptLogs: KeptLogs
  /** State is fetched as it is read. */
  readonly isLazy: boolean
  readonly log: LogOptions
  /** Of the process. */
  readonly mishaps: MishapCounts
}

let reporter: Reporter | undefined
const now = openClock((workerData as PoolWorkerData).node.clock)
const runner = openRunner(workerData as PoolWorkerData)

// From here on: what fails before is a start that failed.
exitOnUncaught((error) => openReporter().report('worker_failed', { err: error }))
const serve = (task: PoolTask) => serveTask(task, runner, now)

export { serve as default, serve as 'module.exports' }

function openRunner(worker: PoolWorkerData): TaskRunner {
  const { node, claims, limits, isLazy, latest } = worker
  const chain = chainSpec(node.chain)
  const thread = claimRow(claims, threadId)
  const logRows = openKeptLogs(limits, worker.threads)
  const reader = openChainReader({
    views: node.views,
    store: openStore(attachDatabase(node.database)),
    chain,
    ...{ thread, front: worker.front, latest, logRows },
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
    // What the node asks itself is not among the methods that it serves.
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
  // Its modules stay loaded, whoever asks for them next.
  return {
    ...calls,
    prepare: () => void makeOther(),
    endTask() {
      calls.endTask()
      tellKeptLogs(worker.keptLogs, thread - claims.first, logRows.stats)
    },
  }
}

/** A thread that never fails has no log to load, which is a tenth of its start. */
function openReporter() {
  const { createLog, loggable }: typeof import('../observe/log.ts') = createRequire(
    import.meta.url,
  )('../observe/log.ts')
  const { createReporter }: typeof import('../observe/reporter.ts') = createRequire(
    import.meta.url,
  )('../observe/reporter.ts')
  const { log, mishaps } = workerData as PoolWorkerData
  reporter ??= createReporter(createLog(log), mishaps)
  return { report: reporter.report, loggable }
}
