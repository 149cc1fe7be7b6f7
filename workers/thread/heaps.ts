/**
 * How large the heap of every thread is: asked from outside, so that an idle pool thread, which hears no message, answers too. And, by a
 * thread itself, how much of its heap is live.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Worker } from 'node:worker_threads'

/**
 * Of each thread of the pool; V8's own bound is several times that on a large machine, and every thread under load grows into it and gives
 * it back from time to time (2026-11, 50 transactions and 200 calls a second: 1,054 MB after a minute, with 48 for each 753). The main
 * thread's is given on the command line, as --max-semi-space-size, a third of 48.
 */
export const YOUNG_HEAP_MB = 32
/** Of writer and sequencer: with the pool's they grow by 20 MB each while the node seems to be at rest. */
export const CHAIN_YOUNG_HEAP_MB = 24
/**
 * Of the keeper, for whose slices roots wait: a collection of its young generation takes 3 ms in the middle and not 7, of 20 at most, and
 * its blocks no more time in all (2026-11, 2,000 changed keys a block).
 */
export const KEEPER_YOUNG_HEAP_MB = 12

export type Heap = {
  /** `writer`, `keeper`, `sequencer`, `feed_0` and so on, and `pool_0` and so on in the order of their start. */
  readonly thread: string
  readonly usedBytes: number
  /** Outside the heap and owned by it: buffers. */
  readonly externalBytes: number
}

/** A thread inside a long native call answers later than this: it is left out. */
const PATIENCE_MS = 500
/** What worker_threads names a thread that nobody has named; only the pool's are. */
const UNNAMED = 'WorkerThread'

export interface HeapWatch {
  readonly heaps: () => Promise<readonly Heap[]>
  stop(): void
}

/** Sees the threads that the process starts from now on. */
export function watchHeaps(): HeapWatch {
  const threads = new Set<Worker>()
  const see = (worker: Worker) => {
    threads.add(worker)
    worker.once('exit', () => threads.delete(worker))
  }
  process.on('worker', see)
  const heaps = async () => {
    let unnamed = 0
    const asked = [...threads].map((worker) => {
      const name = worker.threadName ?? UNNAMED
      return heapOf(worker, name === UNNAMED ? `pool_${unnamed++}` : name)
    })
    return (await Promise.all(asked)).filter((heap) => heap !== undefined)
  }
  return { heaps, stop: () => void process.off('worker', see) }
}

async function heapOf(worker: Worker, thread: string): Promise<Heap | undefined> {
  const statistics = worker.getHeapStatistics().catch(() => undefined)
  // One that ends meanwhile never answers.
  const heap = await Promise.race([statistics, sleep(PATIENCE_MS, undefined, { ref: false })])
  if (heap === undefined) return undefined
  return { thread, usedBytes: heap.used_heap_size, externalBytes: heap.external_memory }
}

const MEGABYTE = 1024 * 1024

/** What `Worker.getHeapStatistics` says of a thread, in megabytes: its heap, with what is not collected yet, and what that owns outside. */
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

/** Collects all garbage of this thread, which stands still meanwhile (2026-11: 17 to 400 ms, one for each megabyte left); gives these. */
export function collectGarbage(): number {
  collector ??= openCollector()
  collector()
  return megabytesOf(getHeapStatistics())
}

/** How much more a worker may take before it tells how much of its heap is live: it may be in a loop that never looks up. */
const UNTOLD_MB = 128
/** What a worker may have beside what is live before it is asked, and collects: this, or half of what is live, which a collection costs. */
const GARBAGE_MB = 96

/** Of a worker that has something to do. `live`: what it told last, `untoldMb`: what it had when it was asked. */
export function judgeHeap(heap: {
  readonly megabytes: number
  readonly isAsked: boolean
  readonly live: number
  readonly untoldMb: number
  readonly mostMb: number
}): 'fine' | 'ask' | 'too large' {
  const { megabytes, isAsked, live, untoldMb, mostMb } = heap
  if (isAsked) return megabytes >= Math.max(untoldMb, mostMb) + UNTOLD_MB ? 'too large' : 'fine'
  if (live >= mostMb) return 'too large'
  return megabytes >= live + Math.max(GARBAGE_MB, live / 2) ? 'ask' : 'fine'
}

/** A pool thread that has done nothing dear has 35 to 45 MB (2026-11). */
const LARGE_MB = 48
/** For an idle thread. */
export function collectIfLarge(): void {
  const { total_physical_size, external_memory } = getHeapStatistics()
  if ((total_physical_size + external_memory) / MEGABYTE < LARGE_MB) return
  collector ??= openCollector()
  // By the usual form V8 keeps the pages that it has freed.
  collector({ type: 'major', flavor: 'last-resort', execution: 'sync' })
}

/** Far more than threads that open theirs at the same time. */
const MOST_TRIES = 100

/**
 * The flag holds for the contexts made while it is set, half a millisecond each. It is the process's, and is taken back: compiled code is
 * cached for one set of flags. Another thread may do so in between. Only who has its collector takes the flag back, so that a thread loses no
 * more tries than others open theirs meanwhile.
 * @throws {Error} when the flag was never set for long enough
 */
export function openCollector(): Collector {
  try {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      setFlagsFromString('--expose-gc')
      const found = runInNewContext('globalThis.gc') as Collector | undefined
      if (found !== undefined) return found
    }
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
  throw new Error(`V8 has shown its collector in none of ${MOST_TRIES} contexts`)
}
