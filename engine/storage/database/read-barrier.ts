/**
 * Separates native calls from the close of the database, because a read after close is a segfault.
 * Shared memory has one line per thread.
 */
import { threadId } from 'node:worker_threads'
import { DatabaseError } from './options.ts'

/**
 * Word 0 is 1 while the database is open. Each thread has two words: 1 inside a native call, and
 * its threadId + 1 (0 = free).
 */
export type ReadBarrierWords = Int32Array<SharedArrayBuffer>

/** Words of a line of 64 bytes, so that threads do not share a cache line. */
const LINE = 16

export function createReadBarrierWords(maxThreads: number): ReadBarrierWords {
  const words = new Int32Array(new SharedArrayBuffer(4 * LINE * (1 + maxThreads)))
  Atomics.store(words, 0, 1)
  return words
}

export const isReadBarrierOpen = (words: ReadBarrierWords): boolean => Atomics.load(words, 0) === 1

export interface ReadBarrier {
  /** @throws {DatabaseError} `closed` */
  enter(): void
  leave(): void
  isOpen(): boolean
}

/**
 * Takes a free line for this thread.
 * @throws {DatabaseError} `invalid` when every line is taken
 */
export function joinReadBarrier(words: ReadBarrierWords): ReadBarrier {
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
      // The line is set before the check. close() does both in reverse order, so that one sees the
      // other.
      Atomics.store(words, line, 1)
      if (isReadBarrierOpen(words)) return
      Atomics.store(words, line, 0)
      throw new DatabaseError('closed', 'the database is closed')
    },
    leave: () => {
      Atomics.store(words, line, 0)
    },
    isOpen: () => isReadBarrierOpen(words),
  }
}

/** Frees the lines of a thread that may have been terminated inside a call. */
export function clearLines(words: ReadBarrierWords, ended: number): void {
  for (let line = LINE; line < words.length; line += LINE) {
    if (Atomics.load(words, line + 1) !== ended + 1) continue
    Atomics.store(words, line, 0)
    Atomics.store(words, line + 1, 0)
  }
}

/**
 * Refuses new calls and waits for running ones.
 * @returns false if the barrier was closed before
 * @throws {DatabaseError} `busy` after the timeout
 */
export async function closeReadBarrier(
  words: ReadBarrierWords,
  timeoutMs: number,
): Promise<boolean> {
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
