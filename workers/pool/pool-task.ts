/** What the pool knows of a call and of the task it went to a worker in. */
import { internalError, timedOut } from '../../rpc/seam/errors.ts'
import type { PoolCall, PoolReply } from '../../rpc/seam/executor.ts'
import { aloneLane, type Deadlines, LANES, laneMs } from '../../rpc/seam/lane.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import { bytesOf } from '../../rpc/seam/pieces.ts'
import type { Prediction } from './costs.ts'
import { LEASH_MS, type Load, type Waiting } from './lanes.ts'
import type { PieceChannel } from './piece-channel.ts'
import {
  answeredOf,
  type LongReplies,
  microsOf,
  readReply,
  type TaskMemory,
  threadOf,
} from './task-memory.ts'

export type Job = Waiting & {
  readonly call: PoolCall
  /** What it was taken for when it came. */
  readonly prediction: Prediction
  readonly queuedAt: number
  /** When it was handed to a worker; undefined: it waits. */
  startedAt: number | undefined
  /** The oldest record it may read. */
  record: number
  isAnswered: boolean
  /** Its first worker died under it. */
  readonly isSecondTry: boolean
  readonly answer: (reply: PoolReply) => void
}
export type Task = {
  readonly jobs: readonly Job[]
  readonly memory: TaskMemory
  /** Of a trace, which is alone in its task. */
  readonly pieces: PieceChannel | undefined
  /** It has the last worker, and may run long. */
  readonly isGuest: boolean
  /** When a worker was first seen to have it. */
  begunAt: number | undefined
  isDoomed: boolean
  isHeapAsked: boolean
  /** Of its worker's heap when that was asked how much of it is live. */
  untoldMb: number
  /** What it ran was put back into the queue, so that others get the worker; as what it waits there. */
  putBack: { readonly job: Job; readonly waiting: Job } | undefined
}

/** A task of several calls that runs longer is not what it was taken for: nobody waits behind it. */
const STUCK_MS = 50

export const isStuck = ({ begunAt }: Task, now: number): boolean =>
  begunAt !== undefined && now >= begunAt + STUCK_MS
/** Of a long lane, or on the way there. */
export const isLong = (task: Task, now: number): boolean =>
  LANES[task.jobs[0]!.lane].isLong || isStuck(task, now)
/** Has no right to its worker when others want it. */
export const isEvictable = (task: Task, now: number): boolean =>
  (task.isGuest || !LANES[task.jobs[0]!.lane].isLong) &&
  task.begunAt !== undefined &&
  now >= task.begunAt + LEASH_MS &&
  task.putBack === undefined &&
  !task.isDoomed

/** The call that its worker has now; undefined: it is through with all. */
export const runningOf = ({ jobs, memory }: Task): Job | undefined => jobs[answeredOf(memory)]

/** What the workers have that are busy with these tasks. */
export function loadOf(tasks: readonly Task[], threads: number, now: number): Load {
  const long = tasks.filter((task) => isLong(task, now))
  const clientOf = (task: Task) => (runningOf(task) ?? task.jobs[0]!).client
  return {
    ...{ threads, free: threads - tasks.length, long: long.length },
    tasksOf: (lane) =>
      tasks.filter((task) => task.jobs[0]!.lane === lane && !isStuck(task, now)).length,
    longOf: (client) => long.filter((task) => clientOf(task) === client).length,
  }
}

/** As what a call waits that has been taken from its worker: it runs alone, and is no guest. */
export const apart = (job: Job): Job => ({
  ...job,
  lane: aloneLane(job.lane),
  isPutBack: true,
  startedAt: undefined,
})

/** Microseconds that the call has taken that its worker did not survive, as far as anybody knows. */
export function lostMicros(
  task: Task,
  end: number,
  limits: Deadlines & Pick<Limits, 'graceMs'>,
): number {
  const { jobs, memory, begunAt } = task
  const job = runningOf(task)
  if (job === undefined || threadOf(memory) === 0) return 0
  const before = jobs
    .slice(0, answeredOf(memory))
    .reduce((sum, _, index) => sum + microsOf(memory, index), 0)
  const most = laneMs(job.call.method.runs, limits) + limits.graceMs
  const ms = Math.min(end - (begunAt ?? job.startedAt!), most)
  return Math.max(0, Math.round(ms * 1_000) - before)
}

export function settle(job: Job, reply: PoolReply): void {
  if (job.isAnswered) return
  job.isAnswered = true
  job.answer(reply)
}

export function replyOf({ memory, pieces }: Task, index: number, long: LongReplies): PoolReply {
  const reply = readReply(memory, index, long) ?? { error: internalError().toObject() }
  if (!('written' in reply)) return reply
  const taken = pieces?.take() ?? []
  if (bytesOf(taken) !== reply.written) return { error: internalError().toObject() }
  const { written: _, ...from } = reply
  return { pieces: taken, ...from }
}

/** The deadline passed; the time in the queue is part of it and told, beside what the worker knew. */
export function expired(
  { call, queuedAt, startedAt }: Job,
  { limits, now }: { readonly limits: Deadlines; readonly now: number },
  known?: object,
): PoolReply {
  const limitMs = laneMs(call.method.runs, limits)
  const elapsedMs = Math.round(now - (call.deadline - limitMs))
  const queuedMs = Math.round((startedAt ?? now) - queuedAt)
  return { error: timedOut({ elapsedMs, limitMs, queuedMs, ...known }).toObject() }
}
