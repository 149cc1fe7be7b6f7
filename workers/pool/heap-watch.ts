/** Watches the heaps of busy workers and reports those with too much live memory. */
import type { Worker } from 'node:worker_threads'
import { judgeHeap, megabytesOf } from '../thread/heaps.ts'
import type { Task } from './pool-task.ts'
import { isLiveRequested, liveOf, requestLive } from './task-memory.ts'

/**
 * Creates the check of a task's worker. `onTooLarge` is called later, when the task may have ended
 * already.
 * @param maxMb megabytes that a worker may use, on its heap and outside
 * @returns checks the worker of a task, if the task has started
 */
export function createHeapWatch(
  maxMb: number,
  onTooLarge: (task: Task, worker: Worker) => void,
): (task: Task, worker: Worker | undefined) => void {
  async function check(task: Task, worker: Worker): Promise<void> {
    task.isHeapRequested = true
    // The request never resolves when the thread ends meanwhile.
    const heap = await worker.getHeapStatistics().catch(() => undefined)
    task.isHeapRequested = false
    if (heap !== undefined && isTooLarge(task, megabytesOf(heap))) onTooLarge(task, worker)
  }

  /**
   * A large heap may be mostly garbage, because V8 lets the old generation grow towards its limit
   * before it collects. So the worker first reports how much is live.
   */
  function isTooLarge(task: Task, megabytes: number): boolean {
    const { memory, heapWhenRequestedMb } = task
    const [isRequested, live] = [isLiveRequested(memory), liveOf(memory)]
    const verdict = judgeHeap({ megabytes, isRequested, live, heapWhenRequestedMb, maxMb })
    if (verdict !== 'ask') return verdict === 'too large'
    task.heapWhenRequestedMb = megabytes
    requestLive(memory)
    return false
  }

  return (task, worker) => {
    if (worker !== undefined && !task.isHeapRequested) void check(task, worker)
  }
}
