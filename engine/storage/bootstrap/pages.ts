/**
 * Rows of a column from a cursor on, as many as a chunk may have. A cursor is a key or the beginning of one. The history columns have an
 * index by prefix, and a seek that leaves its prefix would pass over rows (columns.ts): a cursor there is shorter than a prefix, for which
 * RocksDB looks at all files, or lies in a prefix, whose neighbours are then looked up one by one.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { compareBytes, concatBytes } from '../../primitives/words.ts'
import { decodeNumber } from '../blocks/block-codec.ts'
import type { Database, Entry } from '../database/types.ts'
import { type AskedRows, historyPrefix } from './columns.ts'

export type Page = {
  readonly rows: readonly Entry[]
  /** Where the next one begins; undefined: everything up to the end of the range is here. */
  readonly next: Bytes | undefined
}

/** @param bytes of rows; a page of history ends after four times as many that were looked at, too */
export function readPage(database: Pick<Database, 'scan'>, asked: AskedRows, bytes: number): Page {
  const prefix = historyPrefix(asked.column)
  const filling: Filling = { database, asked, rows: [], bytes, left: bytes, seen: 4 * bytes }
  const next =
    prefix === undefined
      ? take(filling, asked.from, asked.to ?? END)
      : takeHistory(filling, asked.from, prefix)
  return { rows: filling.rows, next }
}

/** No key is longer. */
const END: Bytes = new Uint8Array(80).fill(0xff)
const ROW_BYTES = 6

type Filling = {
  readonly database: Pick<Database, 'scan'>
  readonly asked: AskedRows
  readonly rows: Entry[]
  readonly bytes: number
  left: number
  seen: number
}

/** Takes rows of one range; where it stopped, or undefined at its end. */
function take(filling: Filling, gte: Bytes, lt: Bytes): Bytes | undefined {
  const { database, asked } = filling
  if (compareBytes(gte, lt) >= 0) return undefined
  for (const entry of database.scan(asked.column, { gte, lt, isOnce: true })) {
    if (filling.left <= 0 || filling.seen <= 0) return entry.key
    const size = ROW_BYTES + entry.key.length + entry.value.length
    filling.seen -= size
    if (!isWanted(entry.key, asked)) continue
    filling.left -= size
    filling.rows.push(entry)
  }
  return undefined
}

function isWanted(key: Bytes, { column, above, upTo }: AskedRows): boolean {
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

/** The next prefix of those that differ in their last byte only; after the last one the shorter beginning of what follows. */
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
