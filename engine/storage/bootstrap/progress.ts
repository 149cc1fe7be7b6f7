/** How far a copy has come, in the rows of "meta": committed with what it is about, gone with the commit that makes a chain of it. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../primitives/hex.ts'
import { concatBytes } from '../../primitives/words.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import type { StoredHead } from '../types.ts'
import { COPIED, type CopiedColumn } from './columns.ts'

/** Columns, and the blocks up to the start. */
export const PARTS = ['blocks', ...COPIED] as const
export type Part = (typeof PARTS)[number]

/** What one copy is about. */
export type Progress = {
  /** The block whose state is made. */
  readonly start: StoredHead
  /** First block of the source, and the oldest whose state it has. */
  readonly first: number
  readonly oldest: number
  /** The source keeps what old blocks changed, by which their history is pruned. */
  readonly keepsDiffs: boolean
  /** Newest block that is here, with what it changed. */
  readonly tip: StoredHead
  /** No row that came has changes of a later block. */
  readonly upTo: number
  /** Rows of history of blocks up to this one are here from an earlier start. */
  readonly above: number
  /** By part: where it goes on; undefined: all of it is here. */
  readonly at: Readonly<Record<Part, Bytes | undefined>>
  /** The chain stands, and only newer blocks may be missing. */
  readonly isMade: boolean
}

export const newProgress = (
  of: Pick<Progress, 'start' | 'first' | 'oldest' | 'keepsDiffs'>,
  above = 0,
): Progress => ({
  ...of,
  tip: of.start,
  upTo: of.start.number,
  above,
  at: Object.fromEntries(PARTS.map((part) => [part, NO_BYTES])) as Progress['at'],
  isMade: false,
})

export const isFetched = ({ at, tip, upTo }: Progress): boolean =>
  PARTS.every((part) => at[part] === undefined) && tip.number >= upTo

export function readProgress(database: Pick<Database, 'get'>): Progress | undefined {
  const row = database.get('meta', META.bootstrap)
  if (row === undefined) return undefined
  const { start, tip, at, ...rest } = JSON.parse(new TextDecoder().decode(row)) as Written
  return {
    ...rest,
    start: headOf(start),
    tip: headOf(tip),
    at: Object.fromEntries(
      PARTS.map((part) => [part, at[part] === null ? undefined : hexToBytes(at[part])]),
    ) as Progress['at'],
  }
}

export function putProgress(batch: WriteBatch, { start, tip, at, ...rest }: Progress): void {
  const written: Written = {
    ...rest,
    start: hexOf(start),
    tip: hexOf(tip),
    at: Object.fromEntries(
      PARTS.map((part) => [part, at[part] === undefined ? null : bytesToHex(at[part])]),
    ) as Written['at'],
  }
  batch.put('meta', META.bootstrap, new TextEncoder().encode(JSON.stringify(written)))
}

type Head = { readonly number: number; readonly hash: string }
type Written = Omit<Progress, 'start' | 'tip' | 'at'> & {
  readonly start: Head
  readonly tip: Head
  readonly at: Readonly<Record<Part, string | null>>
}
const headOf = ({ number, hash }: Head): StoredHead => ({ number, hash: hexToBytes(hash) })
const hexOf = ({ number, hash }: StoredHead): Head => ({ number, hash: bytesToHex(hash) })

/** A range that came in one answer: asked for by its checksum when it is looked at again. */
export type KnownRange = {
  readonly from: Bytes
  /** undefined: the end of the column. */
  readonly to: Bytes | undefined
  readonly checksum: bigint
}

export function putRange(batch: WriteBatch, column: CopiedColumn, range: KnownRange): void {
  const value = new Uint8Array(8)
  new DataView(value.buffer).setBigUint64(0, range.checksum)
  batch.put('meta', rangeKey(column, range.from), concatBytes(value, range.to ?? NO_BYTES))
}

/** That which begins at `from`; without one, where the first behind it does. */
export function rangeAt(
  database: Pick<Database, 'range'>,
  column: CopiedColumn,
  from: Bytes,
): { readonly known: KnownRange | undefined; readonly next: Bytes | undefined } {
  const gte = rangeKey(column, from)
  const [found] = database.range('meta', { gte, lt: rangeKey(column, END), limit: 1 })
  if (found === undefined) return { known: undefined, next: undefined }
  const { key, value } = found
  const own = key.slice(rangeKey(column, NO_BYTES).length)
  if (own.length !== from.length || own.some((byte, at) => byte !== from[at]))
    return { known: undefined, next: own }
  const checksum = new DataView(value.buffer, value.byteOffset).getBigUint64(0)
  const to = value.length > 8 ? value.slice(8) : undefined
  return { known: { from, to, checksum }, next: undefined }
}

/** Of all columns. */
export function clearRanges(database: Pick<Database, 'scan'>, batch: WriteBatch): void {
  const gte = META.bootstrapRange
  for (const { key } of database.scan('meta', { gte, lt: concatBytes(gte, END) }))
    batch.delete('meta', key)
}

const END: Bytes = new Uint8Array(70).fill(0xff)
const rangeKey = (column: CopiedColumn, from: Bytes): Bytes =>
  concatBytes(META.bootstrapRange, Uint8Array.of(COPIED.indexOf(column)), from)
