/**
 * The pool queues calls, groups light ones into tasks, passes a task only to a free worker, and
 * enforces deadlines. The queue is our own, because Piscina's queue is not bounded when tasks carry
 * a `signal`. Aborting a Piscina task also ends its worker (ADR 4).
 */

import { internalError, isBecause } from '../../rpc/core/errors.ts'
import {
  type Executor,
  OWN_CLIENT,
  type PoolCall,
  type PoolReply,
} from '../../rpc/core/executor.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import {
  type Deadlines,
  QUEUE_CLASSES,
  type QueueClass,
  type QueueLimits,
} from '../../rpc/core/queue-class.ts'
import { limiterKey } from '../../rpc/limiter/address.ts'
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
  cancelCall,
  createTaskMemory,
  finishedCallsOf,
  type LongReplies,
  microsOf,
  type TaskMemory,
  writeCalls,
} from './task-memory.ts'
import { type PoolThreadOptions, type PoolThreads, startPoolThreads } from './threads.ts'

export type PoolOptions = PoolThreadOptions & {
  readonly limits: Deadlines & QueueLimits & Pick<Limits, 'graceMs'>
  /** Clock of the deadlines; the workers have the same one. */
  readonly now: Clock
  /**
   * Newest snapshot; a call without a snapshot reads at least this one when it is passed to a
   * worker now.
   */
  readonly newestSnapshot: () => number
  readonly onJob?: (job: PoolJob) => void
  /**
   * Reports the processor time of a client's call, also when the call was stopped or its worker
   * ended.
   */
  readonly onSpent?: (address: string, cpuMs: number) => void
}

/** A call that a worker has answered. */
export type PoolJob = {
  readonly queueClass: QueueClass
  readonly queuedMs: number
  /** Processor time of the worker. */
  readonly runMs: number
}

export interface Pool extends Executor {
  /**
   * Ends the calls that may read this snapshot or an older one; they get the timeout's response.
   */
  cancel(snapshot: number): void
  /** Collects the garbage that long calls have left on the workers. */
  collect(): void
  /** Makes the workers load modules that are rarely needed. */
  prepare(): void
  /** Writes what the workers compiled to disk, for the next start. */
  saveCompiled(): void
  /** Ends every worker and waits for their exits. Running calls get an error. */
  stop(): Promise<void>
  stats(): {
    readonly threads: number
    readonly busy: number
    readonly queued: Readonly<Record<QueueClass, number>>
    /** Workers that were ended because they outlived a deadline or used too much memory. */
    readonly terminated: number
    /** Workers that ended for any reason and were replaced. */
    readonly replaced: number
    /** Calls that replay a block, by whether their worker had replayed it before. */
    readonly replays: HolderCounts
  }
}

export function createPool(options: PoolOptions): Pool {
  const workers = startPoolThreads(options)
  const calls = new PoolCalls(options, workers)
  return {
    execute: (call) => calls.execute(call),
    cancel: (snapshot) => calls.cancel(snapshot),
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

/**
 * Tracks every call from arrival to response. A call waits in the queue or is part of a running
 * task.
 */
class PoolCalls {
  readonly #options: PoolOptions
  readonly #workers: PoolThreads
  readonly #queue: JobQueue
  readonly #costs: Costs
  readonly #running = new Set<Task>()
  readonly #supervisor: Supervisor
  /** Memories of finished tasks, for reuse. */
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
      limits,
      threads,
      heapMb,
      workers,
      now,
      queue: this.#queue,
      running: this.#running,
      flush: () => this.#flush(),
    })
  }

  execute(call: PoolCall): Promise<PoolReply> {
    const prediction = this.#costs.classify(call, limiterKey(call.client.address))
    return new Promise((resolve) => {
      const { client, queueClass, predicted, expected } = prediction
      const job: Job = {
        call,
        prediction,
        client,
        queueClass,
        predicted,
        knownUs: expected === 'unknown' ? undefined : predicted,
        bytes: call.text.length,
        queuedAt: this.#options.now(),
        startedAt: undefined,
        snapshot: 0,
        hasResponse: false,
        isSecondTry: false,
        isPutBack: false,
        respond: resolve,
      }
      if (!this.#queue.admit(job)) return
      this.#supervisor.watch()
      this.#flushSoon()
    })
  }

  cancel(snapshot: number): void {
    for (const task of this.#running)
      for (const [index, job] of task.jobs.entries())
        if (job.snapshot <= snapshot) cancelCall(task.memory, index)
  }

  stop(): void {
    this.#isStopped = true
    this.#supervisor.stop()
    this.#queue.close()
  }

  stats() {
    const { terminated } = this.#supervisor
    return { busy: this.#running.size, queued: this.#queue.sizes(), terminated }
  }

  /**
   * Calls are collected until the end of the poll phase, so that one wake-up of a worker serves
   * many.
   */
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
      this.#start(jobs, QUEUE_CLASSES[first.queueClass].isLong && load.long >= threads - 1)
    }
  }

  #start(jobs: readonly Job[], isGuest: boolean): void {
    const startedAt = this.#options.now()
    const memory = this.#memories.pop() ?? createTaskMemory()
    const pieces = QUEUE_CLASSES[jobs[0]!.queueClass].isStreamed ? openPieceChannel() : undefined
    const state = {
      runningSince: undefined,
      isDoomed: false,
      isHeapRequested: false,
      heapWhenRequestedMb: 0,
    }
    const task: Task = { jobs, memory, pieces, isGuest, putBack: undefined, ...state }
    const calls = jobs.map(({ call }) => ({
      method: call.method.name,
      text: call.text,
      endpoint: call.endpoint,
      snapshot: call.snapshot,
      deadline: call.deadline,
      wantsReads: call.wantsReads === true,
    }))
    const long = writeCalls(memory, calls)
    const newest = this.#options.newestSnapshot()
    for (const job of jobs) {
      job.startedAt = startedAt
      job.snapshot = job.call.snapshot ?? newest
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
      if (job.hasResponse) continue
      const queuedMs = job.startedAt! - job.queuedAt
      const runMs = micros / 1_000
      job.call.onRun?.({ queuedMs, runMs })
      settle(
        job,
        isTimeout ? expired(job, { limits, now: now() }, reply.error.data as object) : reply,
      )
      onJob?.({ queueClass: job.queueClass, queuedMs, runMs })
    }
    task.pieces?.close()
    if (this.#memories.length < threads) this.#memories.push(task.memory)
    this.#flush()
  }

  /**
   * @param cost measured cost of a call that was taken; `isCut` means that the call would have
   * taken longer
   */
  #charge(job: Job, cost: { readonly micros: number; readonly isCut: boolean }): void {
    const { micros, isCut } = cost
    this.#queue.done(job, micros)
    this.#costs.learn(job.prediction, micros, isCut)
    const { address } = job.call.client
    if (micros > 0 && address !== OWN_CLIENT.address)
      this.#options.onSpent?.(address, micros / 1_000)
  }

  /**
   * Handles a worker that ended during the task. The task's memory is not reused, because the
   * thread may still write to it.
   */
  #fail(task: Task): void {
    const { limits } = this.#options
    this.#running.delete(task)
    task.pieces?.close()
    const end = this.#options.now()
    const culprit = finishedCallsOf(task.memory)
    for (const [index, job] of task.jobs.entries()) {
      const isLate = end >= job.call.deadline
      const micros =
        index === culprit ? lostMicros(task, end, limits) : microsOf(task.memory, index)
      this.#charge(job, { micros, isCut: index >= culprit })
      if (!isLate && !job.hasResponse && this.#retry(job)) continue
      settle(
        job,
        isLate ? expired(job, { limits, now: end }) : { error: internalError().toObject() },
      )
    }
    this.#flush()
  }

  /**
   * An innocent call may run again, because calls only read. It runs alone and never on the last
   * worker, in case it is the culprit.
   */
  #retry(job: Job): boolean {
    return !job.isSecondTry && this.#queue.push({ ...apart(job), isSecondTry: true })
  }
}
