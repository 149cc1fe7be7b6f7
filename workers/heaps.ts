/** How large the heap of every thread is: asked from outside, so that an idle pool thread, which hears no message, answers too. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'

/**
 * Of each thread; V8's own bound is several times that on a large machine, and every thread under load grows into it and gives it back
 * from time to time (2026-11, 50 transactions and 200 calls a second: 1,054 MB after a minute, with this 753). The main thread's is given
 * on the command line, as --max-semi-space-size, a third of it.
 */
export const YOUNG_HEAP_MB = 48
/**
 * Of the keeper, for whose slices roots wait: a collection of its young generation takes 3 ms in the middle and not 7, of 20 at most, and
 * its blocks no more time in all (2026-11, 2,000 changed keys a block).
 */
export const KEEPER_YOUNG_HEAP_MB = 12

export type Heap = {
  /** `writer`, `keeper`, `sequencer`, and `pool_0` and so on in the order of their start. */
  readonly thread: string
  readonly usedBytes: number
  /** Outside the heap and owned by it: buffers. */
  readonly externalBytes: number
}

/** A thread inside a long native call answers later than this: it is left out. */
const PATIENCE_MS = 500
/** What worker_threads names a thread that nobody has named; only the pool's are. */
const UNNAMED = 'WorkerThread'

/** Sees the threads that are started from now on. */
export function watchHeaps(): () => Promise<readonly Heap[]> {
  const threads = new Set<Worker>()
  process.on('worker', (worker: Worker) => {
    threads.add(worker)
    worker.once('exit', () => threads.delete(worker))
  })
  return async () => {
    let unnamed = 0
    const asked = [...threads].map((worker) => {
      const name = worker.threadName ?? UNNAMED
      return heapOf(worker, name === UNNAMED ? `pool_${unnamed++}` : name)
    })
    return (await Promise.all(asked)).filter((heap) => heap !== undefined)
  }
}

async function heapOf(worker: Worker, thread: string): Promise<Heap | undefined> {
  const statistics = worker.getHeapStatistics().catch(() => undefined)
  // One that ends meanwhile never answers.
  const heap = await Promise.race([statistics, sleep(PATIENCE_MS, undefined, { ref: false })])
  if (heap === undefined) return undefined
  return { thread, usedBytes: heap.used_heap_size, externalBytes: heap.external_memory }
}
