/** The worker's side of the pool: runs the calls of one task, one after the other. */
import { type MessagePort, threadId } from 'node:worker_threads'
import type { CallBounds, WorkerReply } from '../rpc/pool-call.ts'
import { collectGarbage } from './heaps.ts'
import { putPiece } from './piece-channel.ts'
import {
  beginSlab,
  countOf,
  createSlab,
  isCancelled,
  isLiveAsked,
  type LongTexts,
  processNow,
  readCall,
  type Slab,
  type SlabCall,
  tellLive,
  writeReply,
} from './slab.ts'

/** What Piscina carries. */
export type PoolTask = {
  readonly slab: SharedArrayBuffer
  readonly long: LongTexts
  /** For the pieces of a large result; undefined: the task's one call has none. */
  readonly port: MessagePort | undefined
}

export type TaskRunner = {
  /** Never throws. */
  run(call: SlabCall, bounds: CallBounds): WorkerReply | Promise<WorkerReply>
  /** After the last call: nothing may be held by a worker that sleeps. */
  endTask(): void
}

export async function serveTask(task: PoolTask, runner: TaskRunner): Promise<LongTexts> {
  const slab = createSlab(task.slab)
  beginSlab(slab, threadId)
  const long: [number, string][] = []
  const put = task.port === undefined ? noPieces : putPiece(task.port)
  try {
    for (let index = 0; index < countOf(slab); index++) {
      const started = performance.now()
      const call = readCall(slab, index, task.long)
      const isExpired = expiry(slab, index, call.deadline)
      const running = runner.run(call, { isExpired, put })
      const reply = running instanceof Promise ? await running : running
      const micros = Math.round((performance.now() - started) * 1_000)
      const text = writeReply(slab, index, { reply, micros })
      if (text !== undefined) long.push([index, text])
    }
  } finally {
    runner.endTask()
  }
  return long
}

/**
 * What nobody catches ends this thread by `process.exit`, after `report`. Left to Node it is an 'error' event of the thread, and on a busy
 * main thread that may come before the message that the thread is ready: Piscina (5.3) takes it for a start that failed, and never again
 * replaces a thread before there is a task for it. An exit comes after all messages.
 */
export function exitOnUncaught(report: (error: unknown) => void): void {
  process.on('uncaughtException', (error) => {
    report(error)
    process.exit(1)
  })
}

function noPieces(): never {
  throw new Error('this call has no way for pieces')
}

/** A poll comes after a millisecond of steps or around something dear: the clock is looked at each time. */
const expiry = (slab: Slab, index: number, deadline: number) => () => {
  if (isLiveAsked(slab)) tellLive(slab, collectGarbage())
  return isCancelled(slab, index) || processNow() >= deadline
}
