/** State that the pool has of a call, and of the task in which the call went to a worker. */
import { internalError, timedOut } from '../../rpc/core/errors.ts'
import type { PoolCall, PoolReply } from '../../rpc/core/executor.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import { bytesOf } from '../../rpc/core/pieces.ts'
import {
  type Deadlines,
  QUEUE_CLASSES,
  singleCallClass,
  timeoutMsOf,
} from '../../rpc/core/queue-class.ts'
import { LEASH_MS, type Load, type Waiting } from './call-queues.ts'
import type { Prediction } from './costs.ts'
import type { PieceChannel } from './piece-channel.ts'
import {
  finishedCallsOf,
  type LongReplies,
  microsOf,
  readReply,
  type TaskMemory,
  threadOf,
} from './task-memory.ts'

export type Job = Waiting & {
  readonly call: PoolCall
  /** Cost prediction from when the call arrived. */
  readonly prediction: Prediction
  readonly queuedAt: number
  /** Time when the call was passed to a worker; undefined while it waits. */
  startedAt: number | undefined
  /** Oldest snapshot that the call may read. */
  snapshot: number
  hasResponse: boolean
  /** The first worker ended while it ran the call. */
  readonly isSecondTry: boolean
  readonly respond: (reply: PoolReply) => void
}
export type Task = {
  readonly jobs: readonly Job[]
  readonly memory: TaskMemory
  /** Channel of a trace, which is alone in its task. */
  readonly pieces: PieceChannel | undefined
  /** The task runs long on the last worker. */
  readonly isGuest: boolean
  /** Time when a worker was first seen to run the task. */
  runningSince: number | undefined
  isDoomed: boolean
  isHeapRequested: boolean
  /** Heap size of the worker when it was last asked how much of its heap is live. */
  heapWhenRequestedMb: number
  /**
   * The running call was put back into the queue, so that others get the worker: the call, and its
   * waiting copy.
   */
  putBack: { readonly job: Job; readonly waiting: Job } | undefined
}

/**
 * A task of several calls that runs longer was predicted wrong, so its other calls move to other
 * workers.
 */
const STUCK_MS = 50

export const isStuck = ({ runningSince }: Task, now: number): boolean =>
  runningSince !== undefined && now >= runningSince + STUCK_MS
/** Tells whether a task is of a long queue class, or has turned out to be long. */
export const isLong = (task: Task, now: number): boolean =>
  QUEUE_CLASSES[task.jobs[0]!.queueClass].isLong || isStuck(task, now)
/** Tells whether a task has to give up its worker when other calls want it. */
export const isEvictable = (task: Task, now: number): boolean =>
  (task.isGuest || !QUEUE_CLASSES[task.jobs[0]!.queueClass].isLong) &&
  task.runningSince !== undefined &&
  now >= task.runningSince + LEASH_MS &&
  task.putBack === undefined &&
  !task.isDoomed

/** The call that the worker runs now; undefined when all calls are finished. */
export const runningOf = ({ jobs, memory }: Task): Job | undefined => jobs[finishedCallsOf(memory)]

/** Summarizes the load of the workers that run these tasks. */
export function loadOf(tasks: readonly Task[], threads: number, now: number): Load {
  const long = tasks.filter((task) => isLong(task, now))
  const clientOf = (task: Task) => (runningOf(task) ?? task.jobs[0]!).client
  return {
    threads,
    free: threads - tasks.length,
    long: long.length,
    tasksOf: (queueClass) =>
      tasks.filter((task) => task.jobs[0]!.queueClass === queueClass && !isStuck(task, now)).length,
    longOf: (client) => long.filter((task) => clientOf(task) === client).length,
  }
}

/** Copies a call that was taken from its worker: it will run alone, and not as a guest. */
export const apart = (job: Job): Job => ({
  ...job,
  queueClass: singleCallClass(job.queueClass),
  isPutBack: true,
  startedAt: undefined,
})

/**
 * Estimates the processor time of the call during which its worker ended.
 * @returns microseconds
 */
export function lostMicros(
  task: Task,
  end: number,
  limits: Deadlines & Pick<Limits, 'graceMs'>,
): number {
  const { jobs, memory, runningSince } = task
  const job = runningOf(task)
  if (job === undefined || threadOf(memory) === 0) return 0
  const before = jobs
    .slice(0, finishedCallsOf(memory))
    .reduce((sum, _, index) => sum + microsOf(memory, index), 0)
  const max = timeoutMsOf(job.call.method.runs, limits) + limits.graceMs
  const ms = Math.min(end - (runningSince ?? job.startedAt!), max)
  return Math.max(0, Math.round(ms * 1_000) - before)
}

export function settle(job: Job, reply: PoolReply): void {
  if (job.hasResponse) return
  job.hasResponse = true
  job.respond(reply)
}

export function replyOf({ memory, pieces }: Task, index: number, long: LongReplies): PoolReply {
  const reply = readReply(memory, index, long) ?? { error: internalError().toObject() }
  if (!('written' in reply)) return reply
  const taken = pieces?.take() ?? []
  if (bytesOf(taken) !== reply.written) return { error: internalError().toObject() }
  const { written: _, ...from } = reply
  return { pieces: taken, ...from }
}

/** Returns the timeout error. It reports the time in the queue beside what the worker knew. */
export function expired(
  { call, queuedAt, startedAt }: Job,
  { limits, now }: { readonly limits: Deadlines; readonly now: number },
  known?: object,
): PoolReply {
  const limitMs = timeoutMsOf(call.method.runs, limits)
  const elapsedMs = Math.round(now - (call.deadline - limitMs))
  const queuedMs = Math.round((startedAt ?? now) - queuedAt)
  return { error: timedOut({ elapsedMs, limitMs, queuedMs, ...known }).toObject() }
}
