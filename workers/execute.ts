/** A pool thread: opens the chain for reading once, then runs the calls of each task. */
import { createRequire } from 'node:module'
import { threadId, workerData } from 'node:worker_threads'
import { openChainReader } from '../engine/chain/reader.ts'
import { chainSpec } from '../engine/chainspec/registry.ts'
import { engineByName } from '../engine/evm/registry.ts'
import { keccakReady } from '../engine/primitives/keccak.ts'
import { attachDatabase } from '../engine/storage/database.ts'
import { openStore } from '../engine/storage/store.ts'
import type { Limits } from '../rpc/limits.ts'
import { methods } from '../rpc/methods/index.ts'
import { createPoolRunner } from '../rpc/pool-call.ts'
import { proveSidecar } from '../rpc/sidecar.ts'
import { saveCompiled } from './compiled.ts'
import type { Log, LogOptions } from './log.ts'
import type { SharedNode } from './messages.ts'
import { exitOnUncaught, type PoolTask, serveTask, type TaskRunner } from './task.ts'
import { type Claims, claimRow } from './threads.ts'

export type PoolWorkerData = {
  /** Its `thread` is claimed by the worker itself. */
  readonly node: Omit<SharedNode, 'thread'>
  readonly claims: Claims
  readonly limits: Limits
  readonly log: LogOptions
}

let log: Log | undefined
const runner = openRunner(workerData as PoolWorkerData)

/** A thread that serves before its loop has turned once would never have the fast hasher. */
const serve = keccakReady.then(() => {
  saveCompiled()
  // From here on: what fails before is a start that failed.
  exitOnUncaught((error) => openLog().log.error({ err: error }, 'a pool thread failed'))
  return (task: PoolTask) => serveTask(task, runner)
})

export { serve as default, serve as 'module.exports' }

function openRunner({ node, claims, limits }: PoolWorkerData): TaskRunner {
  const chain = chainSpec(node.chain)
  const reader = openChainReader({
    views: node.views,
    store: openStore(attachDatabase(node.database)),
    chain,
    thread: claimRow(claims, threadId),
  })
  return createPoolRunner({
    reader,
    chain,
    engine: engineByName(node.engine),
    limits,
    // What the node asks itself is not among the methods that it serves.
    methods: new Map([...methods, [proveSidecar.name, proveSidecar]]),
    onBug(error, method) {
      const { log, loggable } = openLog()
      log.error({ err: error, method: loggable(method) }, 'a call failed')
    },
  })
}

/** A thread that never fails has no log to load, which is a tenth of its start. */
function openLog() {
  const { createLog, loggable }: typeof import('./log.ts') = createRequire(import.meta.url)(
    './log.ts',
  )
  log ??= createLog((workerData as PoolWorkerData).log)
  return { log, loggable }
}
