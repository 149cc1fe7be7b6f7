/**
 * Threads read while another writes: each response must have been right at some moment of the read.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { createWaitingMemory } from '../../../engine/txpool/shared/memory.ts'
import { openWaitingReader } from '../../../engine/txpool/shared/reader.ts'
import { openWaitingWriter } from '../../../engine/txpool/shared/writer.ts'
import {
  entries,
  lead,
  questionsOf,
  statesOf,
  waitingReaderOf,
} from '../../fixtures/waiting-states.ts'
import type { Read, WaitingThread } from '../../fixtures/waiting-thread.ts'

const READERS = 2
const CHANGES = 30_000

test('each read of another thread is of one moment', async () => {
  const seed = 1
  const shared = {
    memory: createWaitingMemory({ transactions: 64, buckets: 2 }),
    control: new Int32Array(new SharedArrayBuffer(12)),
    history: new Int32Array(new SharedArrayBuffer(4 * CHANGES)),
    threads: READERS,
    seed,
  }
  const start = (own: Pick<WaitingThread, 'role' | 'requests'>) =>
    new Worker(new URL('../../fixtures/waiting-thread.ts', import.meta.url), {
      workerData: { ...shared, ...own } satisfies WaitingThread,
    })
  const readers = Array.from({ length: READERS }, (_, index) =>
    start({ role: 'read', requests: 100 * seed + index }),
  )
  const emitted = Promise.all(readers.map((reader) => once(reader, 'message')))
  try {
    await once(start({ role: 'write', requests: 0 }), 'exit')
    for (const [{ crossed, wrong }] of (await emitted) as [Read][]) {
      expect(wrong).toEqual([])
      expect(crossed).toBeGreaterThan(0)
    }
  } finally {
    // Without the writer's end the readers would read for ever.
    for (const reader of readers) await reader.terminate()
  }
})

/** Runs `read` with `change` before its `at`th load; false: it had fewer. */
function between(at: number, change: () => void, read: () => void): boolean {
  const { load } = Atomics
  let left = at
  Atomics.load = ((...args: Parameters<typeof load>) => {
    if (--left === 0) change()
    return load(...args)
  }) as typeof load
  try {
    read()
  } finally {
    Atomics.load = load
  }
  return left <= 0
}

test('a change between any two loads of a read gives the result before or after it', () => {
  const memory = createWaitingMemory({ transactions: 64, buckets: 1 })
  const writer = openWaitingWriter(memory)
  const reader = openWaitingReader(memory)
  const all = entries()
  const questions = questionsOf(all)
  const states = statesOf(4)
  let now = states[0]!
  const go = (to: typeof now) => {
    lead(writer, all, { from: now, to })
    now = to
  }
  for (let n = 2; n < 8; n++) {
    const [before, after] = [states[n - 1]!, states[n]!]
    const right = [before, after].map((state) => waitingReaderOf(state, all))
    for (const question of questions) {
      const responses = right.map(question)
      for (let at = 1, isBetween = true; isBetween; at++) {
        go(before)
        let response: ReturnType<typeof question> | undefined
        isBetween = between(
          at,
          () => go(after),
          () => {
            response = question(reader)
          },
        )
        expect(responses).toContain(response)
      }
    }
  }
})
