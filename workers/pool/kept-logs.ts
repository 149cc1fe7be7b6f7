/** What the workers keep of the logs of folded blocks: each tells it in shared memory, for the metrics. */
import { type KeptLogRows, keepLogRows } from '../../engine/chain/kept-log-rows.ts'
import type { Limits } from '../../rpc/seam/limits.ts'

const FIELDS = ['hits', 'misses', 'blocks', 'bytes'] as const
/** Numbers of a worker lie where it has its row. */
export type KeptLogs = Float64Array<SharedArrayBuffer>

export const createKeptLogs = (rows: number): KeptLogs =>
  new Float64Array(new SharedArrayBuffer(rows * FIELDS.length * Float64Array.BYTES_PER_ELEMENT))

/** The share of one worker of so many. */
export const openKeptLogs = (
  { keptLogsBytes }: Pick<Limits, 'keptLogsBytes'>,
  threads: number,
): KeptLogRows => keepLogRows(Math.floor(keptLogsBytes / threads))

/** The worker's side. */
export function tellKeptLogs(told: KeptLogs, row: number, stats: KeptLogRows['stats']): void {
  for (const [at, field] of FIELDS.entries()) told[row * FIELDS.length + at] = stats[field]
}

/** Of all together; one that has ended counts until another has its row. */
export function readKeptLogs(told: KeptLogs): Readonly<Record<(typeof FIELDS)[number], number>> {
  const sum = { hits: 0, misses: 0, blocks: 0, bytes: 0 }
  for (const [at, value] of told.entries()) sum[FIELDS[at % FIELDS.length]!] += value
  return sum
}
