/** Looks at the heaps of workers that run calls, and says which of them have too much that is live. */
import type { Worker } from 'node:worker_threads'
import { judgeHeap, megabytesOf } from '../thread/heaps.ts'
import type { Task } from './pool-task.ts'
import { askLive, isLiveAsked, liveOf } from './task-memory.ts'

/**
 * @param mostMb that a worker may have, on its heap and outside
 * @returns a look at the worker of a task, if it has begun; `onTooLarge` is told later, when the task may have ended
 */
export function createHeapWatch(
  mostMb: number,
  onTooLarge: (task: Task, worker: Worker) => void,
): (task: Task, worker: Worker | undefined) => void {
  async function look(task: Task, worker: Worker): Promise<void> {
    task.isHeapAsked = true
    // A thread that ends meanwhile never answers.
    const heap = await worker.getHeapStatistics().catch(() => undefined)
    task.isHeapAsked = false
    if (heap !== undefined && isTooLarge(task, megabytesOf(heap))) onTooLarge(task, worker)
  }

  /**
   * What its heap holds may be garbage, of this call and of those before it: V8 lets the old generation grow towards its own limit before
   * it collects. So the worker is asked first what is live.
   */
  function isTooLarge(task: Task, megabytes: number): boolean {
    const { memory, untoldMb } = task
    const [isAsked, live] = [isLiveAsked(memory), liveOf(memory)]
    const verdict = judgeHeap({ megabytes, isAsked, live, untoldMb, mostMb })
    if (verdict !== 'ask') return verdict === 'too large'
    task.untoldMb = megabytes
    askLive(memory)
    return false
  }

  return (task, worker) => {
    if (worker !== undefined && !task.isHeapAsked) void look(task, worker)
  }
}
