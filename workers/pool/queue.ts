/** The calls that wait for a worker: taken in, refused where there is no place, dropped when nobody waits for them any more. */
import { overloaded } from '../../rpc/seam/errors.ts'
import { type Deadlines, LANES, type Lane, type QueueLimits } from '../../rpc/seam/lane.ts'
import { createLanes, type Lanes, type Load } from './lanes.ts'
import { expired, type Job, settle } from './pool-task.ts'

const STOPPING = 'the node is stopping'
const NO_TIME = 'what waits takes longer than this call may'

export class JobQueue {
  readonly #limits: Deadlines & QueueLimits
  /** Monotonic milliseconds. */
  readonly #now: () => number
  readonly #threads: number
  readonly #lanes: Lanes<Job>
  #isClosed = false

  constructor(limits: Deadlines & QueueLimits, threads: number, now: () => number) {
    this.#limits = limits
    this.#threads = threads
    this.#now = now
    this.#lanes = createLanes(limits, now)
  }

  get size(): number {
    return this.#lanes.size
  }
  sizes(): Readonly<Record<Lane, number>> {
    return this.#lanes.sizes()
  }

  /** False: there is no place for it, or no time. Calls of who has most of those that wait make place for others. */
  push(job: Job, isFirst = false): boolean {
    if (this.#isClosed) return false
    return this.#outOf(job, isFirst) === undefined
  }

  /** As `push`, and its caller is told where that is false. */
  admit(job: Job, isFirst = false): boolean {
    const lateMs = this.#isClosed || isFirst ? 0 : this.#lateMs(job)
    if (lateMs > 0) {
      const retryAfterMs = Math.max(LANES[job.lane].retryAfterMs, Math.ceil(lateMs))
      settle(job, { error: overloaded(NO_TIME, retryAfterMs).toObject() })
      return false
    }
    const limit = this.#isClosed ? LANES[job.lane].queue : this.#outOf(job, isFirst)
    if (limit === undefined) return true
    this.#refuse(job, limit)
    return false
  }

  /** By how much it would miss its deadline while it waits: to be told so now costs its caller less, and the others nothing. */
  #lateMs(job: Job): number {
    const waitMs = this.#lanes.waitMs(job, this.#threads)
    return waitMs === 0 ? 0 : this.#now() + waitMs - job.call.deadline
  }

  /** The limit that leaves no place for it; undefined: it waits now. */
  #outOf(job: Job, isFirst: boolean): keyof QueueLimits | undefined {
    const out = this.#lanes.push(job, isFirst)
    for (const other of out) if (other.job !== job) this.#refuse(other.job, other.limit)
    return out.find((one) => one.job === job)?.limit
  }

  /** The calls of the next task that somebody waits for, maybe none; undefined: nothing that may run now. */
  take(load: Load): readonly Job[] | undefined {
    const jobs = this.#lanes.next(load)
    if (jobs === undefined) return undefined
    const wanted = jobs.filter((job) => !this.#dropIfGone(job))
    for (const job of jobs) if (job.isAnswered) this.#lanes.done(job, 0)
    return wanted
  }

  /** Of each call that was taken, when it has run: what it has cost. */
  done(job: Job, micros: number): void {
    this.#lanes.done(job, micros)
  }

  /** Whether something waits that may have the last worker. */
  isLastWanted(load: Load): boolean {
    return this.#lanes.isLastWanted(load)
  }

  /** False: it does not wait any more. */
  remove(job: Job): boolean {
    return this.#lanes.remove((one) => one === job).length > 0
  }

  /** Answers those whose client has left or whose time is up. */
  dropGone(): void {
    for (const job of this.#lanes.remove((one) => this.#isGone(one))) this.#dropIfGone(job)
  }

  /** Refuses all that waits, and all that comes. */
  close(): void {
    this.#isClosed = true
    for (const job of this.#lanes.remove(() => true)) this.#refuse(job, LANES[job.lane].queue)
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
    const most = this.#limits[limit]
    const full =
      limit === 'callQueueBytes' ? `calls of ${most} bytes wait or run` : `${most} calls wait`
    const why = this.#isClosed ? STOPPING : full
    settle(job, { error: overloaded(why, LANES[job.lane].retryAfterMs).toObject() })
  }
}
