/** Keeps native calls and the close of the database apart: a read after close is a segfault. Shared memory, one line per thread. */
import { threadId } from 'node:worker_threads'
import { DatabaseError } from './options.ts'

/** Word 0: 1 = open. Then per thread: 1 while it is inside a native call, its threadId + 1 (0 = free). */
export type GateWords = Int32Array<SharedArrayBuffer>

/** 64 bytes: threads do not share a cache line. */
const LINE = 16

export function createGateWords(maxThreads: number): GateWords {
  const words = new Int32Array(new SharedArrayBuffer(4 * LINE * (1 + maxThreads)))
  Atomics.store(words, 0, 1)
  return words
}

export const isGateOpen = (words: GateWords): boolean => Atomics.load(words, 0) === 1

/** This thread's side of the gate. */
export interface Gate {
  /** @throws {DatabaseError} `closed`. */
  enter(): void
  leave(): void
  isOpen(): boolean
}

/** @throws {DatabaseError} `invalid` when every line is taken. */
export function passGate(words: GateWords): Gate {
  let line = LINE
  while (line < words.length && Atomics.compareExchange(words, line + 1, 0, threadId + 1) !== 0)
    line += LINE
  if (line >= words.length)
    throw new DatabaseError(
      'invalid',
      `${words.length / LINE - 1} threads are attached: raise maxThreads`,
    )
  return {
    enter() {
      // Set first, look second: close() does it the other way round, so one of the two sees the other.
      Atomics.store(words, line, 1)
      if (isGateOpen(words)) return
      Atomics.store(words, line, 0)
      throw new DatabaseError('closed', 'the database is closed')
    },
    leave: () => {
      Atomics.store(words, line, 0)
    },
    isOpen: () => isGateOpen(words),
  }
}

/** A thread that was terminated inside a call never left. */
export function clearLines(words: GateWords, ended: number): void {
  for (let line = LINE; line < words.length; line += LINE) {
    if (Atomics.load(words, line + 1) !== ended + 1) continue
    Atomics.store(words, line, 0)
    Atomics.store(words, line + 1, 0)
  }
}

/** Refuses new calls and waits for those that run. False: it was closed before. @throws {DatabaseError} `busy` after the timeout. */
export async function shutGate(words: GateWords, timeoutMs: number): Promise<boolean> {
  if (Atomics.compareExchange(words, 0, 1, 0) !== 1) return false
  const isBusy = () => {
    for (let line = LINE; line < words.length; line += LINE)
      if (Atomics.load(words, line) !== 0) return true
    return false
  }
  for (let waitedMs = 0; isBusy(); waitedMs++) {
    if (waitedMs > timeoutMs)
      throw new DatabaseError(
        'busy',
        'a thread is still inside a read: exit without closing, nothing committed is lost',
      )
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return true
}
