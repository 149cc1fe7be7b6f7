/**
 * The pool: takes calls in, gathers light ones into tasks, hands a task only to a free worker, and keeps to deadlines. The queue is our
 * own: Piscina bounds none of its own when it matters, and aborting one of its tasks ends the worker.
 */

import type { Worker } from 'node:worker_threads'
import { laneMs } from '../rpc/call.ts'
import { internalError, overloaded, timedOut } from '../rpc/errors.ts'
import type { Executor, PoolCall, PoolReply } from '../rpc/executor.ts'
import type { Limits } from '../rpc/limits.ts'
import { bytesOf } from '../rpc/pieces.ts'
import { megabytesOf } from './heaps.ts'
import { createCosts, createLanes, isLong, type Lane, queueLimit } from './lanes.ts'
import { openPieceChannel, type PieceChannel } from './piece-channel.ts'
import { type PoolThreadOptions, startPoolThreads } from './pool-threads.ts'
import {
  answeredOf,
  askLive,
  cancelCall,
  createSlab,
  isLiveAsked,
  type LongTexts,
  liveOf,
  microsOf,
  processNow,
  readReply,
  type Slab,
  threadOf,
  writeCalls,
} from './slab.ts'

export type PoolOptions = PoolThreadOptions & {
  readonly limits: Limits
  /** The record that a call without one will read at least, when it is handed over now. */
  readonly newestRecord: () => number
  readonly onJob?: (job: PoolJob) => void
}

/** A call that a worker has answered. */
export type PoolJob = {
  readonly lane: Lane
  readonly queuedMs: number
  readonly runMs: number
}

export interface Pool extends Executor {
  /** Ends the calls that may read this record or an older one: their answer is the timeout's. */
  cancel(record: number): void
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
  }
}

type Job = {
  readonly call: PoolCall
  readonly key: string
  readonly lane: Lane
  readonly predicted: number
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
type Task = {
  readonly jobs: readonly Job[]
  readonly slab: Slab
  /** Of a trace, which is alone in its task. */
  readonly pieces: PieceChannel | undefined
  /** When a worker was first seen to have it. */
  begunAt: number | undefined
  isDoomed: boolean
  isHeapAsked: boolean
  /** Of its worker's heap when that was asked how much of it is live. */
  untoldMb: number
}

/** How often deadlines are looked at while there are calls. */
const SWEEP_MS = 20
/** A task of several calls that runs longer is not what it was taken for: nobody waits behind it. */
const STUCK_MS = 50
/** How often the heaps of busy workers are looked at. */
const HEAP_MS = 100
/** How much more a worker may take before it tells how much of its heap is live: it may be in a loop that never looks up. */
const UNTOLD_MB = 128

export function createPool(options: PoolOptions): Pool {
  const { limits, threads } = options
  const workers = startPoolThreads(options)
  const lanes = createLanes<Job>(limits)
  const costs = createCosts()
  const running = new Set<Task>()
  const slabs: Slab[] = []
  /** performance.now of this thread to the clock of all threads. */
  const clockOffset = processNow() - performance.now()
  let isFlushing = false
  let isStopped = false
  let terminated = 0
  let sweeper: NodeJS.Timeout | undefined
  let heapsAt = 0

  function execute(call: PoolCall): Promise<PoolReply> {
    return new Promise((resolve) => {
      const job: Job = {
        call,
        ...costs.classify(call),
        queuedAt: performance.now(),
        startedAt: undefined,
        record: 0,
        isAnswered: false,
        isSecondTry: false,
        answer: resolve,
      }
      if (isStopped || !lanes.push(job)) {
        const why = isStopped
          ? 'the node is stopping'
          : `${queueLimit(job.lane, limits)} calls wait`
        resolve({ error: overloaded(why, retryAfter(job.lane)).toObject() })
        return
      }
      sweeper ??= setInterval(sweep, SWEEP_MS)
      // Calls gather until the end of the poll phase: one wake-up of a worker for many.
      if (!isFlushing && running.size < threads) {
        isFlushing = true
        setImmediate(() => {
          isFlushing = false
          flush()
        })
      }
    })
  }

  function flush(): void {
    while (!isStopped && running.size < threads) {
      const tasks = [...running]
      const free = threads - tasks.length
      const now = performance.now()
      const light = tasks.filter((task) => task.jobs[0]!.lane === 'light')
      const moving = light.filter((task) => !isStuck(task, now)).length
      const medium = tasks.filter(({ jobs }) => jobs[0]!.lane === 'medium').length
      const heavy = tasks.length - light.length - medium
      const jobs = lanes.next({ threads, free, light: moving, heavy })
      if (jobs === undefined) return
      const wanted = jobs.filter((job) => !dropIfGone(job))
      if (wanted.length > 0) start(wanted)
    }
  }

  function start(jobs: readonly Job[]): void {
    const now = performance.now()
    const slab = slabs.pop() ?? createSlab()
    const pieces = jobs[0]!.call.method.runs === 'trace' ? openPieceChannel() : undefined
    const state = { begunAt: undefined, isDoomed: false, isHeapAsked: false, untoldMb: 0 }
    const task: Task = { jobs, slab, pieces, ...state }
    const calls = jobs.map(({ call }) => ({
      method: call.method.name,
      text: call.text,
      endpoint: call.endpoint,
      record: call.record,
      deadline: call.deadline + clockOffset,
    }))
    const long = writeCalls(slab, calls)
    const newest = options.newestRecord()
    for (const job of jobs) {
      job.startedAt = now
      job.record = job.call.record ?? newest
    }
    running.add(task)
    workers.run({ slab: slab.words.buffer, long, port: pieces?.port }).then(
      (replies) => finish(task, replies),
      () => fail(task),
    )
  }

  function finish(task: Task, long: LongTexts): void {
    running.delete(task)
    for (const [index, job] of task.jobs.entries()) {
      if (job.isAnswered) continue
      const micros = microsOf(task.slab, index)
      costs.learn(job.key, micros)
      const reply = replyOf(task, index, long)
      const isTimeout = 'error' in reply && reply.error.code === timedOut().code
      settle(job, isTimeout ? expired(job, limits, reply.error.data as object) : reply)
      const queuedMs = job.startedAt! - job.queuedAt
      options.onJob?.({ lane: job.lane, queuedMs, runMs: micros / 1_000 })
    }
    task.pieces?.close()
    if (slabs.length < threads) slabs.push(task.slab)
    flush()
  }

  /** The worker has ended under the task. The slab is left to the collector: nothing says that nobody writes to it. */
  function fail(task: Task): void {
    running.delete(task)
    task.pieces?.close()
    const now = performance.now()
    for (const job of task.jobs) {
      const isLate = now >= job.call.deadline
      if (isLate) costs.learn(job.key, (now - job.startedAt!) * 1_000)
      if (!isLate && !job.isAnswered && tryAgain(job)) continue
      settle(job, isLate ? expired(job, limits) : { error: internalError().toObject() })
    }
    flush()
  }

  /** Calls only read, so an innocent one may run again: alone and never on the last worker, in case it is not innocent. */
  function tryAgain(job: Job): boolean {
    if (isStopped || job.isSecondTry) return false
    const lane = job.lane === 'light' || job.lane === 'medium' ? 'dear' : job.lane
    return lanes.push({ ...job, lane, isSecondTry: true, startedAt: undefined })
  }

  /** Whom nobody waits for any more: left before it was started, or out of time in the queue. */
  function dropIfGone(job: Job): boolean {
    const isGone = job.call.client.isGone || performance.now() >= job.call.deadline
    if (isGone) settle(job, expired(job, limits))
    return isGone
  }

  function sweep(): void {
    const now = performance.now()
    const areHeapsDue = now >= heapsAt + HEAP_MS
    if (areHeapsDue) heapsAt = now
    const isGone = ({ call }: Job) => call.client.isGone || now >= call.deadline
    for (const job of lanes.remove(isGone)) dropIfGone(job)
    for (const task of running) {
      for (const [index, { call }] of task.jobs.entries())
        if (call.client.isGone) cancelCall(task.slab, index)
      if (!task.isDoomed && task.jobs.some((job) => isOverdue(job, now))) end(task)
      if (threadOf(task.slab) !== 0) task.begunAt ??= now
      const isHeapDue = areHeapsDue || isLiveAsked(task.slab)
      if (isHeapDue && !task.isHeapAsked) void lookAtHeap(task)
      if (task.jobs.length > 1 && isStuck(task, now) && running.size < threads) split(task)
    }
    flush()
    if (lanes.size === 0 && running.size === 0) {
      clearInterval(sweeper)
      sweeper = undefined
    }
  }
  const isStuck = ({ begunAt }: Task, now: number) =>
    begunAt !== undefined && now >= begunAt + STUCK_MS

  /** What its worker has not begun goes to another. Should it get there all the same, nothing is lost: calls only read. */
  function split({ jobs, slab }: Task): void {
    for (let index = answeredOf(slab) + 1; index < jobs.length; index++) {
      const job = jobs[index]!
      if (job.isAnswered) continue
      if (!lanes.push({ ...job, startedAt: undefined })) return
      job.isAnswered = true
      cancelCall(slab, index)
    }
  }

  const isOverdue = ({ call, isAnswered }: Job, now: number) =>
    !isAnswered && now >= call.deadline + limits.graceMs

  /** The engine did not stop by itself: its worker is ended, and replaced. Late callers have waited long enough. */
  function end(task: Task): void {
    const now = performance.now()
    for (const job of task.jobs) if (isOverdue(job, now)) settle(job, expired(job, limits))
    const worker = workerOf(task)
    if (worker !== undefined) terminate(task, worker)
  }

  /** undefined: it has not begun; its worker is still being started. */
  const workerOf = ({ slab }: Task) => workers.find(threadOf(slab))

  function terminate(task: Task, worker: Worker): void {
    task.isDoomed = true
    terminated++
    void worker.terminate()
  }

  /** Who takes too much memory is not tried again; the others of its task are. */
  async function lookAtHeap(task: Task): Promise<void> {
    const worker = workerOf(task)
    if (worker === undefined) return
    task.isHeapAsked = true
    // A thread that ends meanwhile never answers.
    const heap = await worker.getHeapStatistics().catch(() => undefined)
    task.isHeapAsked = false
    if (heap === undefined || task.isDoomed || !running.has(task)) return
    if (!isTooLarge(task, megabytesOf(heap))) return
    const culprit = task.jobs[answeredOf(task.slab)]
    if (culprit !== undefined) settle(culprit, { error: internalError().toObject() })
    terminate(task, worker)
  }

  /**
   * What its heap holds may be garbage, of this call and of those before it: V8 lets the old generation grow towards its own limit before
   * it collects. So the worker is asked first what is live.
   */
  function isTooLarge(task: Task, megabytes: number): boolean {
    if (megabytes < options.heapMb) return false
    if (isLiveAsked(task.slab)) return megabytes >= task.untoldMb + UNTOLD_MB
    if (liveOf(task.slab) >= options.heapMb) return true
    task.untoldMb = megabytes
    askLive(task.slab)
    return false
  }

  return {
    execute,
    cancel(record) {
      for (const task of running)
        for (const [index, job] of task.jobs.entries())
          if (job.record <= record) cancelCall(task.slab, index)
    },
    async stop() {
      isStopped = true
      clearInterval(sweeper)
      for (const job of lanes.remove(() => true))
        settle(job, { error: overloaded('the node is stopping', 1_000).toObject() })
      await workers.stop()
    },
    stats: () => ({
      threads: workers.count,
      busy: running.size,
      queued: lanes.sizes(),
      terminated,
      replaced: workers.replaced,
    }),
  }
}

const retryAfter = (lane: Lane) => (isLong(lane) ? 1_000 : 200)

function settle(job: Job, reply: PoolReply): void {
  if (job.isAnswered) return
  job.isAnswered = true
  job.answer(reply)
}

function replyOf({ slab, pieces }: Task, index: number, long: LongTexts): PoolReply {
  const reply = readReply(slab, index, long) ?? { error: internalError().toObject() }
  if (!('written' in reply)) return reply
  const taken = pieces?.take() ?? []
  if (bytesOf(taken) !== reply.written) return { error: internalError().toObject() }
  return { pieces: taken, record: reply.record }
}

/** The deadline passed; the time in the queue is part of it and told, beside what the worker knew. */
function expired({ call, queuedAt, startedAt }: Job, limits: Limits, known?: object): PoolReply {
  const limitMs = laneMs(call.method.runs, limits)
  const now = performance.now()
  const elapsedMs = Math.round(now - (call.deadline - limitMs))
  const queuedMs = Math.round((startedAt ?? now) - queuedAt)
  return { error: timedOut({ elapsedMs, limitMs, queuedMs, ...known }).toObject() }
}
