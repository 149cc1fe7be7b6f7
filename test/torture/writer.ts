/**
 * The thread of the writer: it takes steps of the driver at a steady rate, and responses of the
 * persistence thread as they arrive.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { PersistenceResponse } from '../../engine/storage/types.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import { postRequest } from '../../workers/persistence/request.ts'
import type { PersistenceOpened } from '../../workers/thread/messages.ts'
import { openCounters, type SharedCounters } from './counters.ts'
import { Driver, type Habits } from './driver.ts'
import type { SharedLedger } from './ledger.ts'

export const WRITER_ROW = 1

export type WriterData = {
  readonly views: SharedViews
  readonly ledger: SharedLedger
  readonly counters: SharedCounters
  readonly persistence: MessagePort
  /** [newest snapshot whose readers must release, …]. */
  readonly control: Int32Array<SharedArrayBuffer>
  readonly habits: Habits
  readonly foldDepth: number
  readonly graceSeconds: number
  readonly stepsPerSecond: number
  readonly seed: number
}
/**
 * `stop`: the writer starts nothing more. `drain`: it reports on the pages, once no reader holds
 * any.
 */
export type ToTortureWriter = 'stop' | 'drain'
export type FromTortureWriter =
  | { readonly type: 'ready' }
  | { readonly type: 'stopped' }
  | { readonly type: 'drained'; readonly lost: string | undefined }
  | { readonly type: 'fault'; readonly message: string }

/** Maximum of steps that are made up for at once after a pause of the machine. */
const MAX_BURST = 5

if (parentPort !== null) run(parentPort, workerData as WriterData)

function run(main: MessagePort, data: WriterData): void {
  const { persistence, counters, stepsPerSecond } = data
  const notify = (message: FromTortureWriter) => main.postMessage(message)
  let isStopped = false
  const guarded = (work: () => void) => {
    try {
      work()
    } catch (error) {
      isStopped = true
      notify({ type: 'fault', message: `the writer: ${(error as Error).stack}` })
    }
  }
  const driver = new Driver({
    ...data,
    count: openCounters(counters, WRITER_ROW),
    send: (request) => postRequest(persistence, request),
    cancel: (snapshot) => void Atomics.store(data.control, 0, snapshot),
  })
  let hasToStop = false
  const settle = () => {
    if (!hasToStop || !driver.isIdle || isStopped) return
    isStopped = true
    notify({ type: 'stopped' })
  }
  persistence.on('message', (message: PersistenceResponse | PersistenceOpened) =>
    guarded(() => {
      if (message.type === 'opened') return
      driver.respond(message)
      settle()
    }),
  )
  main.on('message', (message: ToTortureWriter) =>
    guarded(() => {
      if (message === 'drain') return notify({ type: 'drained', lost: driver.drain() })
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
  notify({ type: 'ready' })
  go()
}
