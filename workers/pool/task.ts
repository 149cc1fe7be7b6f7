/** The worker's side of the pool: runs the calls of one task in order. */
import { type MessagePort, threadId } from 'node:worker_threads'
import { collectPieces, type Piece } from '../../rpc/core/pieces.ts'
import type { CallBounds, WorkerReply } from '../../rpc/dispatch/worker-call.ts'
import { saveCompiled } from '../thread/compile-cache.ts'
import { collectGarbage, collectIfLarge } from '../thread/heaps.ts'
import type { Clock } from '../thread/running-clock.ts'
import { putPiece } from './piece-channel.ts'
import {
  countOf,
  createTaskMemory,
  isCancelled,
  isLiveRequested,
  type LongReplies,
  type LongReply,
  type LongTexts,
  readCall,
  reportLive,
  startTask,
  type TaskCall,
  type TaskMemory,
  writeReply,
} from './task-memory.ts'

/** Message that Piscina carries to the worker. */
export type PoolTask = {
  readonly memory: SharedArrayBuffer
  readonly long: LongTexts
  /**
   * Port for the pieces of a large result as they are made; undefined sends them with the reply.
   */
  readonly port: MessagePort | undefined
  /**
   * Set for a task without calls: collect garbage, load modules for later, or write compiled code
   * to disk.
   */
  readonly errand?: 'collect' | 'prepare' | 'save compiled'
}

export type TaskRunner = {
  /** Runs one call; it never throws. */
  run(call: TaskCall, bounds: CallBounds): WorkerReply | Promise<WorkerReply>
  /** Runs after the last call, so that a sleeping worker has no lease. */
  endTask(): void
  /** Loads modules that are rarely needed, at a quiet moment. */
  prepare?(): void
}

/**
 * Runs a task in the worker.
 * @param now clock of the deadlines
 */
export async function serveTask(
  task: PoolTask,
  runner: TaskRunner,
  now: Clock,
): Promise<LongReplies> {
  if (task.errand !== undefined) {
    if (task.errand === 'collect') collectIfLarge()
    else if (task.errand === 'prepare') runner.prepare?.()
    else saveCompiled()
    return []
  }
  const memory = createTaskMemory(task.memory)
  startTask(memory, threadId)
  const long: [number, LongReply][] = []
  const streamed = task.port && putPiece(task.port)
  try {
    const watch = startWatch()
    for (let index = 0; index < countOf(memory); index++) {
      const call = readCall(memory, index, task.long)
      const isExpired = () => isOver(memory, index) || now() >= call.deadline
      const pieces: Piece[] = []
      const put = streamed ?? ((piece: Piece) => void pieces.push(piece))
      const running = runner.run(call, { isExpired, put })
      const reply = running instanceof Promise ? await running : running
      const sent = streamed === undefined ? withPieces(reply, pieces) : reply
      const carried = writeReply(memory, index, { reply: sent, micros: watch.lap() })
      if (carried !== undefined) long.push([index, carried])
    }
  } finally {
    runner.endTask()
  }
  return long
}

type Times = { readonly clockMs: number; readonly cpuMicros: number }
/** The system adds processor time to a thread when its clock ticks: every 4 ms, or more often. */
const TICK_US = 4_000

/**
 * Interval between two reads of the processor time. One read takes 0.6 µs, a tenth of a small call
 * (2026-11).
 */
const CHECK_MS = 1

/**
 * Measures the microseconds of each call. A processor time read before the call makes it look
 * longer, by less than CHECK_MS.
 */
function startWatch() {
  let clockMs = performance.now()
  let cpuMicros = readCpu()
  let checkedAtMs = clockMs
  return {
    lap(): number {
      const now = performance.now()
      const before = { clockMs, cpuMicros }
      clockMs = now
      if (now - checkedAtMs < CHECK_MS) return Math.round((now - before.clockMs) * 1_000)
      checkedAtMs = now
      cpuMicros = readCpu()
      return spentMicros(before, { clockMs, cpuMicros })
    },
  }
}

function readCpu(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/**
 * Estimates the processor time between two measurements. Times below one tick come from the clock
 * alone. A longer clock time without processor time was spent waiting.
 * @returns microseconds
 */
export function spentMicros(before: Times, after: Times): number {
  const clock = (after.clockMs - before.clockMs) * 1_000
  return Math.round(Math.min(clock, after.cpuMicros - before.cpuMicros + TICK_US))
}

/**
 * Ends this thread by `process.exit` on an uncaught error, after `report`. Node would emit an
 * 'error' event, which may arrive before the message that the thread is ready. Piscina (5.3) then
 * counts a failed start, and replaces no thread until there is a task for it. An exit arrives after
 * all messages.
 */
export function exitOnUncaught(report: (error: unknown) => void): void {
  process.on('uncaughtException', (error) => {
    report(error)
    process.exit(1)
  })
}

function withPieces(reply: WorkerReply, pieces: readonly Piece[]): WorkerReply {
  if (!('written' in reply)) return reply
  const { written: _, ...from } = reply
  return { pieces: collectPieces(pieces), ...from }
}

/**
 * Tells whether a call was cancelled. The engine polls every millisecond of steps and around
 * expensive work, so garbage is collected here on request.
 */
function isOver(memory: TaskMemory, index: number): boolean {
  if (isLiveRequested(memory)) reportLive(memory, collectGarbage())
  return isCancelled(memory, index)
}
