/**
 * Counts of the workers' caches of persisted logs. Each worker writes them to shared memory, for
 * the metrics.
 */
import { createLogRowsCache, type LogRowsCache } from '../../engine/chain/log-rows-cache.ts'
import type { Limits } from '../../rpc/core/limits.ts'

const FIELDS = ['hits', 'misses', 'blocks', 'bytes'] as const
/** Each worker's numbers are stored at the index of its row. */
export type LogRowsCacheStats = Float64Array<SharedArrayBuffer>

export const createLogRowsCacheStats = (rows: number): LogRowsCacheStats =>
  new Float64Array(new SharedArrayBuffer(rows * FIELDS.length * Float64Array.BYTES_PER_ELEMENT))

/** Opens the cache of one worker, with its share of the bytes of all `threads`. */
export const openLogRowsCache = (
  { keptLogsBytes }: Pick<Limits, 'keptLogsBytes'>,
  threads: number,
): LogRowsCache => createLogRowsCache(Math.floor(keptLogsBytes / threads))

/** Writes the numbers of one worker; called by that worker. */
export function reportLogRowsCache(
  memory: LogRowsCacheStats,
  row: number,
  stats: LogRowsCache['stats'],
): void {
  for (const [at, field] of FIELDS.entries()) memory[row * FIELDS.length + at] = stats[field]
}

/**
 * Sums the numbers of all workers. A worker that has ended counts until another worker takes its
 * row.
 */
export function readLogRowsCacheStats(
  memory: LogRowsCacheStats,
): Readonly<Record<(typeof FIELDS)[number], number>> {
  const sum = { hits: 0, misses: 0, blocks: 0, bytes: 0 }
  for (const [at, value] of memory.entries()) sum[FIELDS[at % FIELDS.length]!] += value
  return sum
}
