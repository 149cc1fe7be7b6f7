/** What the threads of a run count, in shared memory: a thread that is killed has counted up to its end. */

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
  'records',
  'olderIndices',
  'foldsBetween',
  'cacheHits',
  'voids',
  'pruned',
  'leases',
  'adopted',
  'refused',
  'cancelled',
  'publishes',
  'folds',
  'unfolds',
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
  const places = new Map(COUNTERS.map((name, at) => [name, thread * LINE + at]))
  return (name, by = 1) => void Atomics.add(shared, places.get(name)!, by)
}

/** Over all threads. */
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

/** How a run says that its writer found no memory. */
export const STAYED_FULL = 'the arena stayed full'
