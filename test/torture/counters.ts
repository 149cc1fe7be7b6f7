/** Counters of all threads in shared memory, so that the counts of a killed thread survive. */

export const COUNTERS = [
  'reads',
  'accounts',
  'slots',
  'codes',
  'blocks',
  'transactions',
  'receipts',
  'logs',
  'numbers',
  'hashes',
  'prefixes',
  'flashblocks',
  'flashblocksGone',
  'listings',
  'history',
  'snapshots',
  'olderIndices',
  'persistsBetween',
  'cacheHits',
  'voids',
  'pruned',
  'leases',
  'adopted',
  'refused',
  'cancelled',
  'publishes',
  'persists',
  'unwinds',
  'appends',
  'flushes',
  'secondPayloads',
  'shallowReorgs',
  'deepReorgs',
  'recycledPages',
  'prunedBlocks',
  'kills',
  'full',
  'beats',
] as const
export type CounterName = (typeof COUNTERS)[number]
export type Counts = Readonly<Record<CounterName, number>>

export type SharedCounters = Int32Array<SharedArrayBuffer>

const LINE = 48

export const createCounters = (threads: number): SharedCounters =>
  new Int32Array(new SharedArrayBuffer(4 * LINE * threads))

export type Count = (name: CounterName, by?: number) => void

export function openCounters(shared: SharedCounters, thread: number): Count {
  const counterIndexes = new Map(COUNTERS.map((name, at) => [name, thread * LINE + at]))
  return (name, by = 1) => void Atomics.add(shared, counterIndexes.get(name)!, by)
}

/** Sums each counter over all threads. */
export function sumCounters(shared: SharedCounters): Counts {
  const sum = (at: number) => {
    let total = 0
    for (let line = at; line < shared.length; line += LINE) total += Atomics.load(shared, line)
    return total
  }
  return Object.fromEntries(COUNTERS.map((name, at) => [name, sum(at)])) as Counts
}

export const beatsOf = (shared: SharedCounters, thread: number): number =>
  Atomics.load(shared, thread * LINE + COUNTERS.indexOf('beats'))

/** Part of the fault of a run whose writer found no memory. */
export const STAYED_FULL = 'the arena stayed full'
