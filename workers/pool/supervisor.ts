/**
 * Looks after the tasks that workers have: ends the worker of one that outlives its deadline or takes too much memory, gives calls behind
 * a slow one to other workers, and takes a worker back from who has no right to it.
 */
import type { Worker } from 'node:worker_threads'
import { internalError } from '../../rpc/seam/errors.ts'
import type { Deadlines } from '../../rpc/seam/lane.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import { createHeapWatch } from './heap-watch.ts'
import {
  apart,
  expired,
  isEvictable,
  isLong,
  isStuck,
  type Job,
  loadOf,
  runningOf,
  settle,
  type Task,
} from './pool-task.ts'
import type { JobQueue } from './queue.ts'
import { answeredOf, cancelCall, isLiveAsked, threadOf } from './task-memory.ts'
import type { PoolThreads } from './threads.ts'

export type SupervisorOptions = {
  readonly limits: Deadlines & Pick<Limits, 'graceMs'>
  readonly threads: number
  /** Megabytes that one worker may have, on its heap and outside. */
  readonly heapMb: number
  readonly workers: PoolThreads
  readonly queue: JobQueue
  /** Those that workers have now. */
  readonly running: ReadonlySet<Task>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Calls may wait that a worker can have now. */
  readonly flush: () => void
}

/** How often deadlines are looked at while there are calls. */
const SWEEP_MS = 20
/** How often the heaps of busy workers are looked at. */
const HEAP_MS = 50

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #lookAtHeap: (task: Task, worker: Worker | undefined) => void
  #sweeper: NodeJS.Timeout | undefined
  #heapsAt = 0
  #terminated = 0

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#lookAtHeap = createHeapWatch(options.heapMb, (task, worker) =>
      this.#onTooLarge(task, worker),
    )
  }

  /** Workers that it has ended. */
  get terminated(): number {
    return this.#terminated
  }

  /** Looks from now on, until there is no call left. */
  watch(): void {
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS)
  }
  stop(): void {
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  /** It was its thread that had to wait, on a busy machine: what was put back has its place as before. */
  pardon({ putBack }: Task): void {
    if (putBack === undefined) return
    const { job, waiting } = putBack
    const { queue } = this.#options
    if (!queue.remove(waiting)) return
    queue.admit({ ...waiting, lane: job.lane, isPutBack: job.isPutBack }, true)
  }

  #sweep(): void {
    const { queue, running, threads, flush } = this.#options
    const now = this.#options.now()
    const areHeapsDue = now >= this.#heapsAt + HEAP_MS
    if (areHeapsDue) this.#heapsAt = now
    queue.dropGone()
    for (const task of running) this.#lookAt(task, now, areHeapsDue)
    if (running.size === threads) this.#evict(now)
    flush()
    if (queue.size === 0 && running.size === 0) this.stop()
  }

  #lookAt(task: Task, now: number, isHeapDue: boolean): void {
    const { jobs, memory } = task
    const { running, threads } = this.#options
    for (const [index, { call }] of jobs.entries())
      if (call.client.isGone) cancelCall(memory, index)
    if (!task.isDoomed && jobs.some((job) => this.#isOverdue(job, task, now))) this.#end(task, now)
    if (threadOf(memory) !== 0) task.begunAt ??= now
    if (isHeapDue || isLiveAsked(memory)) this.#lookAtHeap(task, this.#workerOf(task))
    if (jobs.length > 1 && isStuck(task, now) && running.size < threads) this.#split(task)
  }

  /** All workers have what runs long, and something waits for the last one: the newest of those without a right to theirs gives way. */
  #evict(now: number): void {
    const { queue, running, threads } = this.#options
    const tasks = [...running]
    if (!tasks.every((task) => isLong(task, now))) return
    const newest = newestOf(tasks.filter((task) => isEvictable(task, now)))
    if (newest === undefined) return
    const others = tasks.filter((task) => task !== newest)
    if (!queue.isLastWanted(loadOf(others, threads, now))) return
    this.#split(newest)
    const index = answeredOf(newest.memory)
    const job = newest.jobs[index]
    if (job === undefined || job.isAnswered) return
    const waiting = apart(job)
    if (!queue.push(waiting, true)) return
    newest.putBack = { job, waiting }
    job.isAnswered = true
    cancelCall(newest.memory, index)
  }

  /** What its worker has not begun goes to another. Should it get there all the same, nothing is lost: calls only read. */
  #split({ jobs, memory }: Task): void {
    for (let index = answeredOf(memory) + 1; index < jobs.length; index++) {
      const job = jobs[index]!
      if (job.isAnswered) continue
      if (!this.#options.queue.push({ ...job, startedAt: undefined })) return
      job.isAnswered = true
      cancelCall(memory, index)
    }
  }

  #isOverdue(job: Job, task: Task, now: number): boolean {
    const isAwaited = !job.isAnswered || job === task.putBack?.job
    return isAwaited && now >= job.call.deadline + this.#options.limits.graceMs
  }

  /** The engine did not stop by itself: its worker is ended, and replaced. Late callers have waited long enough. */
  #end(task: Task, now: number): void {
    for (const job of task.jobs)
      if (this.#isOverdue(job, task, now))
        settle(job, expired(job, { limits: this.#options.limits, now }))
    const worker = this.#workerOf(task)
    if (worker !== undefined) this.#terminate(task, worker)
  }

  /** Who takes too much memory is not tried again; the others of its task are. */
  #onTooLarge(task: Task, worker: Worker): void {
    if (task.isDoomed || !this.#options.running.has(task)) return
    const culprit = runningOf(task)
    if (culprit !== undefined) settle(culprit, { error: internalError().toObject() })
    this.#terminate(task, worker)
  }

  /** undefined: it has not begun; its worker is still being started. */
  #workerOf({ memory }: Task): Worker | undefined {
    return this.#options.workers.find(threadOf(memory))
  }

  #terminate(task: Task, worker: Worker): void {
    task.isDoomed = true
    this.#terminated++
    void worker.terminate()
  }
}

const newestOf = (tasks: readonly Task[]): Task | undefined =>
  tasks.reduce<Task | undefined>(
    (a, b) => (a === undefined || b.begunAt! > a.begunAt! ? b : a),
    undefined,
  )
