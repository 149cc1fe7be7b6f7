/** Counts of the ledger by minute, by hour and in total, as rows of numbers. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { LedgerCounts, Times } from '../ledger-types.ts'

/** Upper bounds of the buckets, in milliseconds. */
export const TIME_BOUNDS_MS = [
  ...[10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 600, 800, 1_000, 1_500, 2_000, 5_000, 10_000],
] as const

/** Names in the order of their numbers in a row. */
const NAMES = [
  ...(['flashblocks', 'promises', 'kept', 'reordered', 'dropped', 'unseen'] as const),
  ...(['secondPayloads', 'equivocations'] as const),
]
export type CountName = (typeof NAMES)[number]
const TIMES = ['taken', 'sealed'] as const
export type TimesName = (typeof TIMES)[number]
/** Count, sum, and the buckets. */
const TIMES_LENGTH = 2 + TIME_BOUNDS_MS.length + 1
const ROW_LENGTH = NAMES.length + TIMES.length * TIMES_LENGTH

/** Changes of one minute, as floats. */
export type CountRow = Float64Array
export const newRow = (): CountRow => new Float64Array(ROW_LENGTH)

export function addCount(row: CountRow, name: CountName, by: number): void {
  row[NAMES.indexOf(name)]! += by
}

export function addTime(row: CountRow, name: TimesName, ms: number, by = 1): void {
  const at = NAMES.length + TIMES.indexOf(name) * TIMES_LENGTH
  const bucket = TIME_BOUNDS_MS.findIndex((bound) => ms <= bound)
  row[at]! += by
  row[at + 1]! += by * ms
  row[at + 2 + (bucket < 0 ? TIME_BOUNDS_MS.length : bucket)]! += by
}

export function addRow(to: CountRow, row: CountRow): void {
  for (const [at, value] of row.entries()) to[at]! += value
}

/**
 * Decodes a row. A row of an older version is shorter, because new numbers are added at the end.
 */
export function decodeRow(bytes: Bytes | undefined): CountRow {
  const row = newRow()
  if (bytes === undefined) return row
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const length = Math.min(ROW_LENGTH, bytes.length >> 3)
  for (let at = 0; at < length; at++) row[at] = view.getFloat64(8 * at)
  return row
}

export function encodeRow(row: CountRow): Bytes {
  const bytes = new Uint8Array(8 * row.length)
  const view = new DataView(bytes.buffer)
  for (const [at, value] of row.entries()) view.setFloat64(8 * at, value)
  return bytes
}

export function countsOf(row: CountRow): LedgerCounts {
  const counts = Object.fromEntries(NAMES.map((name, at) => [name, row[at]!]))
  const times = Object.fromEntries(TIMES.map((name) => [name, timesOf(row, name)]))
  return { ...counts, ...times } as LedgerCounts
}

function timesOf(row: CountRow, name: TimesName): Times {
  const at = NAMES.length + TIMES.indexOf(name) * TIMES_LENGTH
  const buckets = [...row.subarray(at + 2, at + TIMES_LENGTH)]
  return { count: row[at]!, sumMs: row[at + 1]!, buckets }
}

/**
 * Upper bound of a share of the times, as exact as the buckets.
 * @returns undefined if there are no times, or the result is above the last bound
 */
export function quantile({ count, buckets }: Times, share: number): number | undefined {
  let left = count * share
  if (count === 0) return undefined
  const at = buckets.findIndex((one) => {
    left -= one
    return left <= 0
  })
  return TIME_BOUNDS_MS[at]
}
