/** Threads that read what another one writes: no answer that was not right at some moment of the read. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { createWaitingMemory } from '../../../engine/txpool/shared/memory.ts'
import type { Read, WaitingThread } from '../../fixtures/waiting-thread.ts'

const READERS = 2
const CHANGES = 60_000

test.each([1, 2, 3])('each read is of one moment: seed %d', { timeout: 60_000 }, async (seed) => {
  const shared = {
    memory: createWaitingMemory({ transactions: 32, buckets: 2 }),
    control: new Int32Array(new SharedArrayBuffer(12)),
    history: new Int32Array(new SharedArrayBuffer(4 * CHANGES)),
    threads: READERS,
    seed,
  }
  const start = (own: Pick<WaitingThread, 'role' | 'asks'>) =>
    new Worker(new URL('../../fixtures/waiting-thread.ts', import.meta.url), {
      workerData: { ...shared, ...own } satisfies WaitingThread,
    })
  const readers = Array.from({ length: READERS }, (_, index) =>
    start({ role: 'read', asks: 100 * seed + index }),
  )
  const told = Promise.all(readers.map((reader) => once(reader, 'message')))
  try {
    await once(start({ role: 'write', asks: 0 }), 'exit')
    for (const [{ crossed, wrong }] of (await told) as [Read][]) {
      expect(wrong).toEqual([])
      expect(crossed).toBeGreaterThan(0)
    }
  } finally {
    // Where the writer did not come to its end they would read for ever.
    for (const reader of readers) await reader.terminate()
  }
})
