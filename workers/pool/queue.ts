/**
 * The calls that wait for a worker. A full queue refuses a call; a lost client or a passed deadline
 * drops it.
 */
import { overloaded } from '../../rpc/core/errors.ts'
import {
  type Deadlines,
  QUEUE_CLASSES,
  type QueueClass,
  type QueueLimits,
} from '../../rpc/core/queue-class.ts'
import { type CallQueues, createCallQueues, type Load } from './call-queues.ts'
import { expired, type Job, settle } from './pool-task.ts'

const STOPPING = 'the node is stopping'
const tooLong = (retryAfterMs: number): string =>
  `the queue is longer than this call's timeout; retry in ${retryAfterMs} ms`

export class JobQueue {
  readonly #limits: Deadlines & QueueLimits
  /** Monotonic milliseconds. */
  readonly #now: () => number
  readonly #threads: number
  readonly #callQueues: CallQueues<Job>
  #isClosed = false

  constructor(limits: Deadlines & QueueLimits, threads: number, now: () => number) {
    this.#limits = limits
    this.#threads = threads
    this.#now = now
    this.#callQueues = createCallQueues(limits, now)
  }

  get size(): number {
    return this.#callQueues.size
  }
  sizes(): Readonly<Record<QueueClass, number>> {
    return this.#callQueues.sizes()
  }

  /**
   * Queues a call; false means that the queue is full or closed. The address with the most waiting
   * calls loses entries to others.
   */
  push(job: Job, isFirst = false): boolean {
    if (this.#isClosed) return false
    return this.#outOf(job, isFirst) === undefined
  }

  /** Queues a call as `push` does, and answers its caller with an error when that fails. */
  admit(job: Job, isFirst = false): boolean {
    const lateMs = this.#isClosed || isFirst ? 0 : this.#lateMs(job)
    if (lateMs > 0) {
      const retryAfterMs = Math.max(QUEUE_CLASSES[job.queueClass].retryAfterMs, Math.ceil(lateMs))
      settle(job, { error: overloaded(tooLong(retryAfterMs), retryAfterMs).toObject() })
      return false
    }
    const limit = this.#isClosed ? QUEUE_CLASSES[job.queueClass].queue : this.#outOf(job, isFirst)
    if (limit === undefined) return true
    this.#refuse(job, limit)
    return false
  }

  /**
   * Milliseconds by which the call would miss its deadline while it waits. An early refusal saves
   * work for everybody.
   */
  #lateMs(job: Job): number {
    const waitMs = this.#callQueues.waitMs(job, this.#threads)
    return waitMs === 0 ? 0 : this.#now() + waitMs - job.call.deadline
  }

  /**
   * Queues a call and returns the limit that excludes it; undefined means that the call waits now.
   */
  #outOf(job: Job, isFirst: boolean): keyof QueueLimits | undefined {
    const out = this.#callQueues.push(job, isFirst)
    for (const other of out) if (other.job !== job) this.#refuse(other.job, other.limit)
    return out.find((one) => one.job === job)?.limit
  }

  /**
   * Takes the calls of the next task that a client still waits for, maybe none. Undefined means
   * that nothing may run now.
   */
  take(load: Load): readonly Job[] | undefined {
    const jobs = this.#callQueues.next(load)
    if (jobs === undefined) return undefined
    const wanted = jobs.filter((job) => !this.#dropIfGone(job))
    for (const job of jobs) if (job.hasResponse) this.#callQueues.done(job, 0)
    return wanted
  }

  done(job: Job, micros: number): void {
    this.#callQueues.done(job, micros)
  }

  isLastWanted(load: Load): boolean {
    return this.#callQueues.isLastWanted(load)
  }

  /** Removes a waiting call; false means that the call was not in the queue. */
  remove(job: Job): boolean {
    return this.#callQueues.remove((one) => one === job).length > 0
  }

  /** Answers the calls whose client has left or whose deadline has passed. */
  dropGone(): void {
    for (const job of this.#callQueues.remove((one) => this.#isGone(one))) this.#dropIfGone(job)
  }

  /** Refuses all waiting calls, and all later ones. */
  close(): void {
    this.#isClosed = true
    for (const job of this.#callQueues.remove(() => true))
      this.#refuse(job, QUEUE_CLASSES[job.queueClass].queue)
  }

  #isGone({ call }: Job): boolean {
    return call.client.isGone || this.#now() >= call.deadline
  }
  #dropIfGone(job: Job): boolean {
    const isGone = this.#isGone(job)
    if (isGone) settle(job, expired(job, { limits: this.#limits, now: this.#now() }))
    return isGone
  }
  #refuse(job: Job, limit: keyof QueueLimits): void {
    const max = this.#limits[limit]
    const full =
      limit === 'callQueueBytes'
        ? `waiting and running calls have ${max} bytes`
        : `${max} calls wait`
    const why = this.#isClosed ? STOPPING : full
    settle(job, { error: overloaded(why, QUEUE_CLASSES[job.queueClass].retryAfterMs).toObject() })
  }
}
