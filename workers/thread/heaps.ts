/**
 * Heap sizes of all threads, requested from outside, so that an idle pool thread, which processes
 * no messages, answers too. A thread can also measure how much of its own heap is live.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Worker } from 'node:worker_threads'

/**
 * Young generation of each pool thread. V8's own bound is several times larger on a large machine,
 * and every busy thread reaches it. Measured (2026-11, 50 transactions and 200 calls a second:
 * 1,054 MB after a minute, with 48 for each 753). The main thread's limit is on the command line,
 * as --max-semi-space-size, a third of 48.
 */
export const YOUNG_HEAP_MB = 32
/**
 * Young generation of writer and sequencer. With the pool's size they grow by 20 MB each while the
 * node is idle.
 */
export const CHAIN_YOUNG_HEAP_MB = 24
/**
 * Young generation of the persistence thread, whose slices delay state roots. A collection takes a
 * median of 3 ms instead of 7, and at most 20. Blocks take no more time in all (2026-11, 2,000
 * changed keys a block).
 */
export const PERSISTENCE_YOUNG_HEAP_MB = 12

export type Heap = {
  /**
   * `writer`, `keeper` (the persistence thread), `sequencer`, `feed_0` and so on. Pool threads are
   * `pool_0` and so on, in start order.
   */
  readonly thread: string
  readonly usedBytes: number
  /** Buffers outside the heap that the heap owns. */
  readonly externalBytes: number
}

/** A thread inside a long native call answers later than this and is left out. */
const TIMEOUT_MS = 500
/** Default name of worker_threads; only the pool's threads have it. */
const UNNAMED = 'WorkerThread'

export interface HeapWatch {
  readonly heaps: () => Promise<readonly Heap[]>
  stop(): void
}

/** Watches the threads that the process starts after this call. */
export function watchHeaps(): HeapWatch {
  const threads = new Set<Worker>()
  const see = (worker: Worker) => {
    threads.add(worker)
    worker.once('exit', () => threads.delete(worker))
  }
  process.on('worker', see)
  const heaps = async () => {
    let unnamed = 0
    const requested = [...threads].map((worker) => {
      const name = worker.threadName ?? UNNAMED
      return heapOf(worker, name === UNNAMED ? `pool_${unnamed++}` : name)
    })
    return (await Promise.all(requested)).filter((heap) => heap !== undefined)
  }
  return { heaps, stop: () => void process.off('worker', see) }
}

async function heapOf(worker: Worker, thread: string): Promise<Heap | undefined> {
  const statistics = worker.getHeapStatistics().catch(() => undefined)
  // The request never resolves when the thread ends meanwhile.
  const heap = await Promise.race([statistics, sleep(TIMEOUT_MS, undefined, { ref: false })])
  if (heap === undefined) return undefined
  return { thread, usedBytes: heap.used_heap_size, externalBytes: heap.external_memory }
}

const MEGABYTE = 1024 * 1024

/**
 * Converts `Worker.getHeapStatistics` to megabytes: the heap with its uncollected garbage, and the
 * external memory that the heap owns.
 */
export const megabytesOf = (heap: {
  readonly used_heap_size: number
  readonly external_memory: number
}): number => (heap.used_heap_size + heap.external_memory) / MEGABYTE

type Collector = (options?: {
  readonly type: 'major'
  readonly flavor: 'last-resort'
  readonly execution: 'sync'
}) => void
let collector: Collector | undefined

/**
 * Collects all garbage of this thread, which stops meanwhile (2026-11: 17 to 400 ms, one for each
 * live megabyte).
 * @returns the megabytes that are live
 */
export function collectGarbage(): number {
  collector ??= openCollector()
  collector()
  return megabytesOf(getHeapStatistics())
}

/**
 * Megabytes that a worker may grow before it reports its live heap, because a loop may lack
 * deadline checks.
 */
const UNREPORTED_MB = 128
/**
 * Garbage, beside live memory, before a worker must collect: this or half of the live memory,
 * because collecting costs in proportion.
 */
const GARBAGE_MB = 96

/**
 * Judges the heap of a busy worker.
 * @param heap `live` is its last report, `heapWhenRequestedMb` its size at the last request
 */
export function judgeHeap(heap: {
  readonly megabytes: number
  readonly isRequested: boolean
  readonly live: number
  readonly heapWhenRequestedMb: number
  readonly maxMb: number
}): 'fine' | 'ask' | 'too large' {
  const { megabytes, isRequested, live, heapWhenRequestedMb, maxMb } = heap
  if (isRequested)
    return megabytes >= Math.max(heapWhenRequestedMb, maxMb) + UNREPORTED_MB ? 'too large' : 'fine'
  if (live >= maxMb) return 'too large'
  return megabytes >= live + Math.max(GARBAGE_MB, live / 2) ? 'ask' : 'fine'
}

/** A pool thread without expensive work has 35 to 45 MB (2026-11). */
const LARGE_MB = 48
/** Collects the garbage of an idle thread if its heap is large. */
export function collectIfLarge(): void {
  const { total_physical_size, external_memory } = getHeapStatistics()
  if ((total_physical_size + external_memory) / MEGABYTE < LARGE_MB) return
  collector ??= openCollector()
  // With the default flavor V8 retains the pages that it has freed.
  collector({ type: 'major', flavor: 'last-resort', execution: 'sync' })
}

/** Far more than the number of threads that open a collector at the same time. */
const MAX_TRIES = 100

/**
 * Opens V8's collector. The flag applies to contexts created while it is set, half a millisecond
 * each. The flag is unset afterwards, because it is the process's and compiled code is cached for
 * one set of flags. Another thread may unset it in between. Only a thread that has its collector
 * does so, which bounds the lost tries by the threads that open theirs.
 * @throws {Error} when the flag was never set for long enough
 */
export function openCollector(): Collector {
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      setFlagsFromString('--expose-gc')
      const found = runInNewContext('globalThis.gc') as Collector | undefined
      if (found !== undefined) return found
    }
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
  throw new Error(`V8 has not exposed its collector in any of ${MAX_TRIES} contexts`)
}
