/**
 * Progress of a copy, in rows of "meta", and the error of a copy that cannot continue. The progress
 * is committed with the copied rows, and deleted when the copy becomes a chain.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../primitives/hex.ts'
import { concatBytes } from '../../primitives/words.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import type { StoredHead } from '../types.ts'
import { COPIED, type CopiedColumn } from './columns.ts'

/** Copied columns, and the blocks up to the start. */
export const PARTS = ['blocks', ...COPIED] as const
export type Part = (typeof PARTS)[number]

export type Progress = {
  /** The block whose state is made. */
  readonly start: StoredHead
  /** First block of the source, and the oldest block whose state the source has. */
  readonly first: number
  readonly oldest: number
  /** The source retains diffs as long as history, which is pruned by them. */
  readonly keepsDiffs: boolean
  /** Newest block that is stored with its diff. */
  readonly tip: StoredHead
  /** No copied row has changes of a later block. */
  readonly upTo: number
  /** History rows of blocks up to this one are complete from an earlier start. */
  readonly above: number
  /** Position of the copy by part; undefined: the part is complete. */
  readonly at: Readonly<Record<Part, Bytes | undefined>>
  /** The chain is complete, and only newer blocks may be missing. */
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

/** A range that came in one response. A later check compares its checksum. */
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

/** Known range that starts at `from`; without one, the start of the next known range. */
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

/** Deletes the known ranges of all columns. */
export function clearRanges(database: Pick<Database, 'scan'>, batch: WriteBatch): void {
  const gte = META.bootstrapRange
  for (const { key } of database.scan('meta', { gte, lt: concatBytes(gte, END) }))
    batch.delete('meta', key)
}

const END: Bytes = new Uint8Array(70).fill(0xff)
const rangeKey = (column: CopiedColumn, from: Bytes): Bytes =>
  concatBytes(META.bootstrapRange, Uint8Array.of(COPIED.indexOf(column)), from)

/** The copy cannot continue; the message says what is wrong and what to do. */
export class BootstrapError extends Error {
  override name = 'BootstrapError'
}
