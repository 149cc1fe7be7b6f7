/** The worker's side of the pool: runs the calls of one task, one after the other. */
import { threadId } from 'node:worker_threads'
import type { PoolReply } from '../rpc/executor.ts'
import {
  beginSlab,
  countOf,
  createSlab,
  isCancelled,
  type LongTexts,
  processNow,
  readCall,
  type SlabCall,
  writeReply,
} from './slab.ts'

/** What Piscina carries. */
export type PoolTask = { readonly slab: SharedArrayBuffer; readonly long: LongTexts }

export type TaskRunner = {
  /** Never throws. */
  run(call: SlabCall, isExpired: () => boolean): PoolReply | Promise<PoolReply>
  /** After the last call: nothing may be held by a worker that sleeps. */
  endTask(): void
}

export async function serveTask(task: PoolTask, runner: TaskRunner): Promise<LongTexts> {
  const slab = createSlab(task.slab)
  beginSlab(slab, threadId)
  const long: [number, string][] = []
  try {
    for (let index = 0; index < countOf(slab); index++) {
      const started = performance.now()
      const call = readCall(slab, index, task.long)
      const running = runner.run(
        call,
        expiry(call.deadline, () => isCancelled(slab, index)),
      )
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

/** A poll comes after a millisecond of steps or around something dear: the clock is looked at each time. */
const expiry = (deadline: number, isCancelled: () => boolean) => () =>
  isCancelled() || processNow() >= deadline
