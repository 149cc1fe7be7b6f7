/**
 * Decides which waiting call goes to a worker next: bounded queue classes, each of which serves its
 * addresses in turn.
 */
import {
  forEachQueueClass,
  QUEUE_CLASS_NAMES,
  QUEUE_CLASSES,
  type QueueClass,
  type QueueLimits,
} from '../../rpc/core/queue-class.ts'
import { FairQueue } from './fair-queue.ts'
import { createQueueShares, type Out, type QueuedCall } from './queue-shares.ts'
import { MAX_CALLS } from './task-memory.ts'

export type Waiting = QueuedCall & {
  /** The call was taken from the last worker, because it ran too long there. */
  readonly isPutBack: boolean
}

export interface CallQueues<T extends Waiting> {
  /**
   * Queues a call.
   * @returns the calls that lose their queue entry: this one, or others that make room for it
   */
  push(job: T, isFirst?: boolean): readonly Out<T>[]
  /** Takes the jobs of the next task; undefined means that nothing may run now. */
  next(load: Load): readonly T[] | undefined
  /** Tells whether a waiting call may use the last worker. */
  isLastWanted(load: Load): boolean
  /**
   * Lower bound, in milliseconds, of the time until all workers together have finished the calls
   * before this one.
   */
  waitMs(job: T, threads: number): number
  /** Reports the measured cost of a call that `next` returned, once it has run. */
  done(job: T, micros: number): void
  /** Removes the calls that match the predicate. */
  remove(isGone: (job: T) => boolean): readonly T[]
  readonly size: number
  sizes(): Readonly<Record<QueueClass, number>>
}
export type Load = {
  readonly threads: number
  /** Number of workers without a task. */
  readonly free: number
  /** Number of tasks of a queue class that make progress (a stuck task does not count). */
  readonly tasksOf: (queueClass: QueueClass) => number
  /** Number of tasks of long queue classes, and of other tasks that turned out to be long. */
  readonly long: number
  /** Number of long tasks that belong to an address. */
  readonly longOf: (client: string) => number
}

/** A guest on the last worker may run this long while other calls wait for that worker. */
export const LEASH_MS = 100

const hasFirst = <T extends Waiting>(queue: FairQueue<T>, isWanted: (job: T) => boolean): boolean =>
  queue.length > 0 && queue.someFirst(isWanted)

export function createCallQueues<T extends Waiting>(
  limits: QueueLimits,
  now: () => number,
): CallQueues<T> {
  const queues = forEachQueueClass((queueClass) => new FairQueue<T>(QUEUE_CLASSES[queueClass], now))
  const queueShares = createQueueShares(limits, queues)
  /** Parameter bytes of the calls that were taken and still run. */
  let runningBytes = 0
  /** Queue class at which the next round starts, so that every class gets its turn. */
  let turn = 0

  function mayRun(queueClass: QueueClass, load: Load): boolean {
    const { length, waitingUs } = queues[queueClass]
    if (length === 0) return false
    const { wakeUs } = QUEUE_CLASSES[queueClass]
    return wakeUs === 0 || waitingUs >= wakeUs || load.tasksOf(queueClass) === 0
  }
  /** The last worker runs quick calls, and one guest of an address without other workers. */
  const mayStart = (load: Load) => (job: T) => {
    if (!QUEUE_CLASSES[job.queueClass].isLong || load.long < load.threads - 1) return true
    const isGuest = !job.isPutBack && job.predicted < LEASH_MS * 1_000
    return isGuest && load.long < load.threads && load.longOf(job.client) === 0
  }

  return {
    push(job, isFirst) {
      const out = queueShares.freeCapacityFor(job, runningBytes)
      if (typeof out === 'string') return [{ job, limit: out }]
      for (const one of out) queues[one.job.queueClass].pop(one.job.client)
      queueShares.enter(job)
      queues[job.queueClass].push(job, isFirst)
      return out
    },
    next(load) {
      for (let step = 0; step < QUEUE_CLASS_NAMES.length; step++) {
        const at = (turn + step) % QUEUE_CLASS_NAMES.length
        const queueClass = QUEUE_CLASS_NAMES[at]!
        if (!mayRun(queueClass, load)) continue
        const queue = queues[queueClass]
        const max = QUEUE_CLASSES[queueClass].isSpread
          ? Math.ceil(queue.length / load.free)
          : queue.length
        const jobs = queue.take(Math.min(MAX_CALLS, max), mayStart(load))
        if (jobs.length === 0) continue
        turn = at + 1
        for (const { bytes } of jobs) runningBytes += bytes
        return queueShares.leave(jobs)
      }
      return undefined
    },
    isLastWanted: (load) =>
      QUEUE_CLASS_NAMES.some((queueClass) => hasFirst(queues[queueClass], mayStart(load))),
    waitMs: ({ queueClass, client }, threads) =>
      queues[queueClass].beforeUs(client) / threads / 1_000,
    done(job, micros) {
      runningBytes -= job.bytes
      queues[job.queueClass].charge(job.client, micros - job.predicted)
    },
    remove: (isGone) =>
      QUEUE_CLASS_NAMES.flatMap((queueClass) =>
        queueShares.leave(queues[queueClass].remove(isGone)),
      ),
    get size() {
      return QUEUE_CLASS_NAMES.reduce((sum, queueClass) => sum + queues[queueClass].length, 0)
    },
    sizes: () => forEachQueueClass((queueClass) => queues[queueClass].length),
  }
}
