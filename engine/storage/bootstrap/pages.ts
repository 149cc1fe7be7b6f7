/**
 * Reads rows of a column from a cursor on, up to the size of a chunk. A cursor is a key or the
 * start of one. A history column has an index by prefix, and a seek that leaves its prefix would
 * miss rows (columns.ts). So a cursor there is shorter than a prefix, for which RocksDB searches
 * all files. Or it is in a prefix, whose neighbours are then read one by one.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { compareBytes, concatBytes } from '../../primitives/words.ts'
import { decodeNumber } from '../blocks/block-codec.ts'
import type { Database, Entry } from '../database/types.ts'
import { historyPrefix, type RowsRequest } from './columns.ts'

export type Page = {
  readonly rows: readonly Entry[]
  /** Cursor of the next page; undefined at the end of the range. */
  readonly next: Bytes | undefined
}

/**
 * Reads one page.
 * @param bytes of rows; a page also ends after reading four times as many
 */
export function readPage(
  database: Pick<Database, 'scan'>,
  request: RowsRequest,
  bytes: number,
): Page {
  const prefix = historyPrefix(request.column)
  const filling: Filling = {
    database,
    requested: request,
    rows: [],
    bytes,
    left: bytes,
    seen: 4 * bytes,
  }
  const next =
    prefix === undefined
      ? take(filling, request.from, request.to ?? END)
      : takeHistory(filling, request.from, prefix)
  return { rows: filling.rows, next }
}

/** Upper bound of all keys. */
const END: Bytes = new Uint8Array(80).fill(0xff)
const ROW_BYTES = 6

type Filling = {
  readonly database: Pick<Database, 'scan'>
  readonly requested: RowsRequest
  readonly rows: Entry[]
  readonly bytes: number
  left: number
  seen: number
}

/**
 * Takes rows of one range. Returns the key where it stopped, or undefined at the end of the range.
 */
function take(filling: Filling, gte: Bytes, lt: Bytes): Bytes | undefined {
  const { database, requested: request } = filling
  if (compareBytes(gte, lt) >= 0) return undefined
  for (const entry of database.scan(request.column, { gte, lt, isOnce: true })) {
    if (filling.left <= 0 || filling.seen <= 0) return entry.key
    const size = ROW_BYTES + entry.key.length + entry.value.length
    filling.seen -= size
    if (!isWanted(entry.key, request)) continue
    filling.left -= size
    filling.rows.push(entry)
  }
  return undefined
}

function isWanted(key: Bytes, { column, above, upTo }: RowsRequest): boolean {
  const prefix = historyPrefix(column)
  if (prefix === undefined) return column !== 'code' || key.length === 32
  const number = decodeNumber(key, prefix)
  return number > above && number <= upTo
}

function takeHistory(filling: Filling, from: Bytes, prefix: number): Bytes | undefined {
  let at: Bytes | undefined = from
  while (at !== undefined && at.length >= prefix) {
    const own: Bytes = at.slice(0, prefix)
    const stopped = take(filling, at, concatBytes(own, NUMBERS_END))
    if (stopped !== undefined) return stopped
    at = neighbour(own)
  }
  return at === undefined ? undefined : take(filling, at, END)
}

const NUMBERS_END: Bytes = new Uint8Array(9).fill(0xff)

/**
 * The next prefix if only the last byte changes, otherwise the shorter start of the following
 * prefixes.
 */
function neighbour(prefix: Bytes): Bytes | undefined {
  const next = prefix.slice()
  for (let at = next.length - 1; at >= 0; at--) {
    if (next[at]! < 0xff) {
      next[at]!++
      return at === next.length - 1 ? next : next.slice(0, at + 1)
    }
  }
  return undefined
}
