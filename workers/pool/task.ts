/** The worker's side of the pool: runs the calls of one task, one after the other. */
import { type MessagePort, threadId } from 'node:worker_threads'
import type { CallBounds, WorkerReply } from '../../rpc/dispatch/worker-call.ts'
import { collectPieces, type Piece } from '../../rpc/seam/pieces.ts'
import { saveCompiled } from '../thread/compile-cache.ts'
import { collectGarbage, collectIfLarge } from '../thread/heaps.ts'
import type { Clock } from '../thread/running-clock.ts'
import { putPiece } from './piece-channel.ts'
import {
  beginTask,
  countOf,
  createTaskMemory,
  isCancelled,
  isLiveAsked,
  type LongReplies,
  type LongReply,
  type LongTexts,
  readCall,
  type TaskCall,
  type TaskMemory,
  tellLive,
  writeReply,
} from './task-memory.ts'

/** What Piscina carries. */
export type PoolTask = {
  readonly memory: SharedArrayBuffer
  readonly long: LongTexts
  /** For the pieces of a large result, as they are made; undefined: they go with the reply. */
  readonly port: MessagePort | undefined
  /** It has no call: what the thread's heap holds for nobody shall go, or what V8 compiled be written for the next start. */
  readonly errand?: 'collect' | 'prepare' | 'save compiled'
}

export type TaskRunner = {
  /** Never throws. */
  run(call: TaskCall, bounds: CallBounds): WorkerReply | Promise<WorkerReply>
  /** After the last call: nothing may be held by a worker that sleeps. */
  endTask(): void
  /** Loads what is needed now and then, in a quiet moment. */
  prepare?(): void
}

/** @param now the clock that deadlines are by */
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
  beginTask(memory, threadId)
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
      const told = streamed === undefined ? withPieces(reply, pieces) : reply
      const carried = writeReply(memory, index, { reply: told, micros: watch.lap() })
      if (carried !== undefined) long.push([index, carried])
    }
  } finally {
    runner.endTask()
  }
  return long
}

type Times = { readonly clockMs: number; readonly cpuMicros: number }
/** The system adds to a thread's time when its clock ticks: every 4 ms, or more often. */
const TICK_US = 4_000

/** Between two looks at the processor's time: a look takes 0.6 µs, a tenth of a small call (2026-11). */
const LOOK_MS = 1

/** Microseconds that each call took. A look at the processor's time that is older than the call makes it look dearer by less than LOOK_MS. */
function startWatch() {
  let clockMs = performance.now()
  let cpuMicros = readCpu()
  let lookedAtMs = clockMs
  return {
    lap(): number {
      const now = performance.now()
      const before = { clockMs, cpuMicros }
      clockMs = now
      if (now - lookedAtMs < LOOK_MS) return Math.round((now - before.clockMs) * 1_000)
      lookedAtMs = now
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
 * Of this thread's processor. What is shorter than a tick is told by the clock alone; what took longer by the clock and not by the
 * processor waited, for another thread or for what it had asked for.
 */
export function spentMicros(before: Times, after: Times): number {
  const clock = (after.clockMs - before.clockMs) * 1_000
  return Math.round(Math.min(clock, after.cpuMicros - before.cpuMicros + TICK_US))
}

/**
 * What nobody catches ends this thread by `process.exit`, after `report`. Left to Node it is an 'error' event of the thread, and on a busy
 * main thread that may come before the message that the thread is ready: Piscina (5.3) takes it for a start that failed, and never again
 * replaces a thread before there is a task for it. An exit comes after all messages.
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

/** Nobody waits for it. A poll comes after a millisecond of steps or around something dear: what is asked of a busy worker is done here. */
function isOver(memory: TaskMemory, index: number): boolean {
  if (isLiveAsked(memory)) tellLive(memory, collectGarbage())
  return isCancelled(memory, index)
}
