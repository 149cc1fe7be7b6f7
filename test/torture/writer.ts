/** The writer's thread: steps of the driver at a steady rate, answers of the keeper as they come. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { KeeperAnswer } from '../../engine/storage/types.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import { postRequest } from '../../workers/keeper/request.ts'
import type { KeeperOpened } from '../../workers/thread/messages.ts'
import { openCounters, type SharedCounters } from './counters.ts'
import { Driver, type Habits } from './driver.ts'
import type { SharedLedger } from './ledger.ts'

export const WRITER_ROW = 1

export type WriterData = {
  readonly views: SharedViews
  readonly ledger: SharedLedger
  readonly counters: SharedCounters
  readonly keeper: MessagePort
  /** [readers of this record and older ones let go, …]. */
  readonly control: Int32Array<SharedArrayBuffer>
  readonly habits: Habits
  readonly foldDepth: number
  readonly graceSeconds: number
  readonly stepsPerSecond: number
  readonly seed: number
}
/** `stop`: nothing is begun any more. `drain`: what became of the pages, once no reader holds any. */
export type ToTortureWriter = 'stop' | 'drain'
export type FromTortureWriter =
  | { readonly type: 'ready' }
  | { readonly type: 'stopped' }
  | { readonly type: 'drained'; readonly lost: string | undefined }
  | { readonly type: 'fault'; readonly message: string }

/** Steps that are made up for at once after a pause of the machine. */
const MAX_BURST = 5

if (parentPort !== null) run(parentPort, workerData as WriterData)

function run(main: MessagePort, data: WriterData): void {
  const { keeper, counters, stepsPerSecond } = data
  const tell = (message: FromTortureWriter) => main.postMessage(message)
  let isStopped = false
  const guarded = (work: () => void) => {
    try {
      work()
    } catch (error) {
      isStopped = true
      tell({ type: 'fault', message: `the writer: ${(error as Error).stack}` })
    }
  }
  const driver = new Driver({
    ...data,
    count: openCounters(counters, WRITER_ROW),
    send: (request) => postRequest(keeper, request),
    cancel: (record) => void Atomics.store(data.control, 0, record),
  })
  let hasToStop = false
  const settle = () => {
    if (!hasToStop || !driver.isIdle || isStopped) return
    isStopped = true
    tell({ type: 'stopped' })
  }
  keeper.on('message', (message: KeeperAnswer | KeeperOpened) =>
    guarded(() => {
      if (message.type === 'opened') return
      driver.answer(message)
      settle()
    }),
  )
  main.on('message', (message: ToTortureWriter) =>
    guarded(() => {
      if (message === 'drain') return tell({ type: 'drained', lost: driver.drain() })
      hasToStop = true
      settle()
    }),
  )
  const periodMs = 1000 / stepsPerSecond
  let dueMs = performance.now()
  const go = () => {
    if (isStopped || hasToStop) return
    guarded(() => {
      const now = performance.now()
      for (let burst = 0; dueMs <= now && burst < MAX_BURST; burst++) {
        driver.step()
        dueMs += periodMs
      }
      dueMs = Math.max(dueMs, now)
    })
    setTimeout(go, Math.max(0, dueMs - performance.now()))
  }
  tell({ type: 'ready' })
  go()
}
