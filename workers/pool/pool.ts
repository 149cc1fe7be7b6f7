/**
 * The pool: takes calls in, gathers light ones into tasks, hands a task only to a free worker, and keeps to deadlines. The queue is our
 * own: Piscina bounds none of its own when it matters, and aborting one of its tasks ends the worker.
 */
import { limiterKey } from '../../rpc/seam/address.ts'
import { internalError, isBecause } from '../../rpc/seam/errors.ts'
import {
  type Executor,
  OWN_CLIENT,
  type PoolCall,
  type PoolReply,
} from '../../rpc/seam/executor.ts'
import { type Deadlines, LANES, type Lane, type QueueLimits } from '../../rpc/seam/lane.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import type { Clock } from '../thread/running-clock.ts'
import { type Costs, CUT_US, createCosts } from './costs.ts'
import type { HolderCounts } from './holders.ts'
import { openPieceChannel } from './piece-channel.ts'
import {
  apart,
  expired,
  type Job,
  loadOf,
  lostMicros,
  replyOf,
  settle,
  type Task,
} from './pool-task.ts'
import { JobQueue } from './queue.ts'
import { Supervisor } from './supervisor.ts'
import {
  answeredOf,
  cancelCall,
  createTaskMemory,
  type LongReplies,
  microsOf,
  type TaskMemory,
  writeCalls,
} from './task-memory.ts'
import { type PoolThreadOptions, type PoolThreads, startPoolThreads } from './threads.ts'

export type PoolOptions = PoolThreadOptions & {
  readonly limits: Deadlines & QueueLimits & Pick<Limits, 'graceMs'>
  /** As deadlines are in; its workers have the same. */
  readonly now: Clock
  /** The record that a call without one will read at least, when it is handed over now. */
  readonly newestRecord: () => number
  readonly onJob?: (job: PoolJob) => void
  /** A client's call has run: for how long of a worker's processor. Also when it was stopped, or its worker ended under it. */
  readonly onSpent?: (address: string, cpuMs: number) => void
}

/** A call that a worker has answered. */
export type PoolJob = {
  readonly lane: Lane
  readonly queuedMs: number
  /** Of its worker's processor. */
  readonly runMs: number
}

export interface Pool extends Executor {
  /** Ends the calls that may read this record or an older one: their answer is the timeout's. */
  cancel(record: number): void
  /** Has garbage collected that long calls have left. */
  collect(): void
  /** Has its workers load what is needed now and then. */
  prepare(): void
  /** Has what its workers compiled written for the next start. */
  saveCompiled(): void
  /** Ends every worker and waits until they have ended; what still runs is answered with an error. */
  stop(): Promise<void>
  stats(): {
    readonly threads: number
    readonly busy: number
    readonly queued: Readonly<Record<Lane, number>>
    /** Workers ended because they outlived a deadline, or had too much memory. */
    readonly terminated: number
    /** Workers that ended, for that or any other reason, and were replaced. */
    readonly replaced: number
    /** Calls that replay a block, by whether they got a worker that had done so. */
    readonly replays: HolderCounts
  }
}

export function createPool(options: PoolOptions): Pool {
  const workers = startPoolThreads(options)
  const calls = new PoolCalls(options, workers)
  return {
    execute: (call) => calls.execute(call),
    cancel: (record) => calls.cancel(record),
    collect: workers.collect,
    prepare: workers.prepare,
    saveCompiled: workers.saveCompiled,
    async stop() {
      calls.stop()
      await workers.stop()
    },
    stats() {
      const { count: threads, replaced, replays } = workers
      return { threads, replaced, replays, ...calls.stats() }
    },
  }
}

/** Every call from its coming to its answer. It waits in the queue, or is in a task that a worker has. */
class PoolCalls {
  readonly #options: PoolOptions
  readonly #workers: PoolThreads
  readonly #queue: JobQueue
  readonly #costs: Costs
  readonly #running = new Set<Task>()
  readonly #supervisor: Supervisor
  /** Of tasks that are over. */
  readonly #memories: TaskMemory[] = []
  #isFlushing = false
  #isStopped = false

  constructor(options: PoolOptions, workers: PoolThreads) {
    const { limits, threads, heapMb, now } = options
    this.#options = options
    this.#workers = workers
    this.#queue = new JobQueue(limits, threads, now)
    this.#costs = createCosts(now)
    this.#supervisor = new Supervisor({
      ...{ limits, threads, heapMb, workers, now },
      queue: this.#queue,
      running: this.#running,
      flush: () => this.#flush(),
    })
  }

  execute(call: PoolCall): Promise<PoolReply> {
    const prediction = this.#costs.classify(call, limiterKey(call.client.address))
    return new Promise((resolve) => {
      const { client, lane, predicted, expected } = prediction
      const job: Job = {
        ...{ call, prediction, client, lane, predicted },
        knownUs: expected === 'unknown' ? undefined : predicted,
        bytes: call.text.length,
        queuedAt: this.#options.now(),
        startedAt: undefined,
        record: 0,
        isAnswered: false,
        isSecondTry: false,
        isPutBack: false,
        answer: resolve,
      }
      if (!this.#queue.admit(job)) return
      this.#supervisor.watch()
      this.#flushSoon()
    })
  }

  /** Ends the calls that may read this record or an older one. */
  cancel(record: number): void {
    for (const task of this.#running)
      for (const [index, job] of task.jobs.entries())
        if (job.record <= record) cancelCall(task.memory, index)
  }

  /** Nothing is handed out any more. */
  stop(): void {
    this.#isStopped = true
    this.#supervisor.stop()
    this.#queue.close()
  }

  stats() {
    const { terminated } = this.#supervisor
    return { busy: this.#running.size, queued: this.#queue.sizes(), terminated }
  }

  /** Calls gather until the end of the poll phase: one wake-up of a worker for many. */
  #flushSoon(): void {
    if (this.#isFlushing || this.#running.size >= this.#options.threads) return
    this.#isFlushing = true
    setImmediate(() => {
      this.#isFlushing = false
      this.#flush()
    })
  }

  #flush(): void {
    const { threads, now } = this.#options
    while (!this.#isStopped && this.#running.size < threads) {
      const load = loadOf([...this.#running], threads, now())
      const jobs = this.#queue.take(load)
      if (jobs === undefined) return
      const [first] = jobs
      if (first === undefined) continue
      this.#start(jobs, LANES[first.lane].isLong && load.long >= threads - 1)
    }
  }

  #start(jobs: readonly Job[], isGuest: boolean): void {
    const startedAt = this.#options.now()
    const memory = this.#memories.pop() ?? createTaskMemory()
    const pieces = LANES[jobs[0]!.lane].isStreamed ? openPieceChannel() : undefined
    const state = { begunAt: undefined, isDoomed: false, isHeapAsked: false, untoldMb: 0 }
    const task: Task = { jobs, memory, pieces, isGuest, putBack: undefined, ...state }
    const calls = jobs.map(({ call }) => ({
      method: call.method.name,
      text: call.text,
      endpoint: call.endpoint,
      record: call.record,
      deadline: call.deadline,
      wantsReads: call.wantsReads === true,
    }))
    const long = writeCalls(memory, calls)
    const newest = this.#options.newestRecord()
    for (const job of jobs) {
      job.startedAt = startedAt
      job.record = job.call.record ?? newest
    }
    this.#running.add(task)
    const { replayed } = jobs[0]!.call
    this.#workers.run({ memory: memory.words.buffer, long, port: pieces?.port }, replayed).then(
      (replies) => this.#finish(task, replies),
      () => this.#fail(task),
    )
  }

  #finish(task: Task, long: LongReplies): void {
    const { limits, threads, onJob, now } = this.#options
    this.#running.delete(task)
    for (const [index, job] of task.jobs.entries()) {
      const micros = microsOf(task.memory, index)
      const reply = replyOf(task, index, long)
      const isTimeout = 'error' in reply && isBecause(reply.error, 'timeout')
      this.#charge(job, { micros, isCut: isTimeout })
      if (job === task.putBack?.job && micros < CUT_US) this.#supervisor.pardon(task)
      if (job.isAnswered) continue
      const queuedMs = job.startedAt! - job.queuedAt
      const runMs = micros / 1_000
      job.call.onRun?.({ queuedMs, runMs })
      settle(
        job,
        isTimeout ? expired(job, { limits, now: now() }, reply.error.data as object) : reply,
      )
      onJob?.({ lane: job.lane, queuedMs, runMs })
    }
    task.pieces?.close()
    if (this.#memories.length < threads) this.#memories.push(task.memory)
    this.#flush()
  }

  /** @param cost of a call that was taken; `isCut`: it would have taken longer */
  #charge(job: Job, cost: { readonly micros: number; readonly isCut: boolean }): void {
    const { micros, isCut } = cost
    this.#queue.done(job, micros)
    this.#costs.learn(job.prediction, micros, isCut)
    const { address } = job.call.client
    if (micros > 0 && address !== OWN_CLIENT.address)
      this.#options.onSpent?.(address, micros / 1_000)
  }

  /** The worker has ended under the task. The memory is left to the collector: nothing says that nobody writes to it. */
  #fail(task: Task): void {
    const { limits } = this.#options
    this.#running.delete(task)
    task.pieces?.close()
    const end = this.#options.now()
    const culprit = answeredOf(task.memory)
    for (const [index, job] of task.jobs.entries()) {
      const isLate = end >= job.call.deadline
      const micros =
        index === culprit ? lostMicros(task, end, limits) : microsOf(task.memory, index)
      this.#charge(job, { micros, isCut: index >= culprit })
      if (!isLate && !job.isAnswered && this.#tryAgain(job)) continue
      settle(
        job,
        isLate ? expired(job, { limits, now: end }) : { error: internalError().toObject() },
      )
    }
    this.#flush()
  }

  /** Calls only read, so an innocent one may run again: alone and never on the last worker, in case it is not innocent. */
  #tryAgain(job: Job): boolean {
    return !job.isSecondTry && this.#queue.push({ ...apart(job), isSecondTry: true })
  }
}
