/**
 * Supervises the running tasks. It ends the worker of a task that outlives its deadline or takes
 * too much memory. It moves calls behind a slow call to other workers. A task without a right to
 * its worker loses it.
 */
import type { Worker } from 'node:worker_threads'
import { internalError } from '../../rpc/core/errors.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import type { Deadlines } from '../../rpc/core/queue-class.ts'
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
import { cancelCall, finishedCallsOf, isLiveRequested, threadOf } from './task-memory.ts'
import type { PoolThreads } from './threads.ts'

export type SupervisorOptions = {
  readonly limits: Deadlines & Pick<Limits, 'graceMs'>
  readonly threads: number
  /** Megabytes that one worker may use, on its heap and outside. */
  readonly heapMb: number
  readonly workers: PoolThreads
  readonly queue: JobQueue
  readonly running: ReadonlySet<Task>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Called when a worker may be free for waiting calls. */
  readonly flush: () => void
}

/** Interval of the deadline checks while calls run. */
const SWEEP_MS = 20
/** Interval of the heap checks of busy workers. */
const HEAP_MS = 50

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #checkHeap: (task: Task, worker: Worker | undefined) => void
  #sweeper: NodeJS.Timeout | undefined
  #heapsAt = 0
  #terminated = 0

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#checkHeap = createHeapWatch(options.heapMb, (task, worker) =>
      this.#onTooLarge(task, worker),
    )
  }

  get terminated(): number {
    return this.#terminated
  }

  /** Starts the periodic checks; they go on until `stop`. */
  watch(): void {
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS)
  }
  stop(): void {
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  /**
   * A busy machine delayed the worker's thread, and the call itself was quick. The call that was
   * put back gets its former queue class again.
   */
  pardon({ putBack }: Task): void {
    if (putBack === undefined) return
    const { job, waiting } = putBack
    const { queue } = this.#options
    if (!queue.remove(waiting)) return
    queue.admit({ ...waiting, queueClass: job.queueClass, isPutBack: job.isPutBack }, true)
  }

  #sweep(): void {
    const { queue, running, threads, flush } = this.#options
    const now = this.#options.now()
    const areHeapsDue = now >= this.#heapsAt + HEAP_MS
    if (areHeapsDue) this.#heapsAt = now
    queue.dropGone()
    for (const task of running) this.#check(task, now, areHeapsDue)
    if (running.size === threads) this.#evict(now)
    flush()
    if (queue.size === 0 && running.size === 0) this.stop()
  }

  #check(task: Task, now: number, isHeapDue: boolean): void {
    const { jobs, memory } = task
    const { running, threads } = this.#options
    for (const [index, { call }] of jobs.entries())
      if (call.client.isGone) cancelCall(memory, index)
    if (!task.isDoomed && jobs.some((job) => this.#isOverdue(job, task, now))) this.#end(task, now)
    if (threadOf(memory) !== 0) task.runningSince ??= now
    if (isHeapDue || isLiveRequested(memory)) this.#checkHeap(task, this.#workerOf(task))
    if (jobs.length > 1 && isStuck(task, now) && running.size < threads) this.#split(task)
  }

  /**
   * Frees a worker when all of them run long tasks and a waiting call may use the last worker. The
   * newest task without a right to its worker gives way.
   */
  #evict(now: number): void {
    const { queue, running, threads } = this.#options
    const tasks = [...running]
    if (!tasks.every((task) => isLong(task, now))) return
    const newest = newestOf(tasks.filter((task) => isEvictable(task, now)))
    if (newest === undefined) return
    const others = tasks.filter((task) => task !== newest)
    if (!queue.isLastWanted(loadOf(others, threads, now))) return
    this.#split(newest)
    const index = finishedCallsOf(newest.memory)
    const job = newest.jobs[index]
    if (job === undefined || job.hasResponse) return
    const waiting = apart(job)
    if (!queue.push(waiting, true)) return
    newest.putBack = { job, waiting }
    job.hasResponse = true
    cancelCall(newest.memory, index)
  }

  /**
   * Moves the calls that the worker has not started to others. A call that runs twice does no harm,
   * because calls only read.
   */
  #split({ jobs, memory }: Task): void {
    for (let index = finishedCallsOf(memory) + 1; index < jobs.length; index++) {
      const job = jobs[index]!
      if (job.hasResponse) continue
      if (!this.#options.queue.push({ ...job, startedAt: undefined })) return
      job.hasResponse = true
      cancelCall(memory, index)
    }
  }

  #isOverdue(job: Job, task: Task, now: number): boolean {
    const isAwaited = !job.hasResponse || job === task.putBack?.job
    return isAwaited && now >= job.call.deadline + this.#options.limits.graceMs
  }

  /**
   * The engine did not stop by itself, so its worker is ended and replaced. Overdue callers get
   * their answer now.
   */
  #end(task: Task, now: number): void {
    for (const job of task.jobs)
      if (this.#isOverdue(job, task, now))
        settle(job, expired(job, { limits: this.#options.limits, now }))
    const worker = this.#workerOf(task)
    if (worker !== undefined) this.#terminate(task, worker)
  }

  /** The call that takes too much memory fails; the other calls of its task run again. */
  #onTooLarge(task: Task, worker: Worker): void {
    if (task.isDoomed || !this.#options.running.has(task)) return
    const culprit = runningOf(task)
    if (culprit !== undefined) settle(culprit, { error: internalError().toObject() })
    this.#terminate(task, worker)
  }

  /**
   * Returns the worker of a task; undefined while the task has not started, because its worker is
   * still loading.
   */
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
    (a, b) => (a === undefined || b.runningSince! > a.runningSince! ? b : a),
    undefined,
  )
