/**
 * Rows of the ledger. Keys begin with their kind, numbers are big-endian.
 *
 * | kind | key → value |
 * |---|---|
 * | flashblock | block (8) ‖ payload (8) ‖ index (4) ‖ checksum (8) of what was promised → time (8) ‖ decided (8) ‖ causes (1) ‖ transactions |
 * | transaction | first half of its hash (16) ‖ the key of its flashblock → nothing |
 * | doubt | block (8) ‖ payload (8) → causes (1), until the block is decided |
 * | minute, hour, total | the minute or hour since 1970 (8), nothing → counts.ts |
 * | decided | → block (8) up to which all promises have a fate ‖ bytes (8) that all rows take, about |
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'
import { concatBytes, equalBytes } from '../../primitives/words.ts'
import { latin1 } from '../../state/words.ts'
import { decodeNumber, encodeNumber } from '../blocks/block-codec.ts'
import { StoredFormatError } from '../database/lists.ts'
import type { Range } from '../database/types.ts'
import {
  CAUSES,
  type Cause,
  FATES,
  type Fate,
  PROMISED_BYTES,
  type PromisedFlashblock,
} from '../ledger-types.ts'

export const KIND = {
  flashblock: 1,
  transaction: 2,
  doubt: 3,
  minute: 4,
  hour: 5,
  total: 6,
  decided: 7,
} as const

/** A flashblock's promises. */
export type FlashblockRow = {
  readonly number: number
  readonly payloadId: Bytes
  readonly index: number
  readonly atMs: number
  /** 0: not decided. */
  readonly decidedAtMs: number
  readonly causes: readonly Cause[]
  readonly transactions: readonly PromisedTransaction[]
}
export type PromisedTransaction = {
  readonly hash: Bytes
  readonly sender: Bytes
  readonly nonce: bigint
  readonly position: number
  readonly fate: Fate
}

const HEAD_BYTES = 17
/** What was promised ‖ fate (1). */
const ITEM_BYTES = PROMISED_BYTES + 1
const FLASHBLOCK_KEY_BYTES = 29
const HALF_HASH = 16

const ofKind = (kind: number, ...parts: readonly Bytes[]): Bytes =>
  concatBytes(Uint8Array.of(kind), ...parts)

export const TOTAL_KEY: Bytes = Uint8Array.of(KIND.total)
export const DECIDED_KEY: Bytes = Uint8Array.of(KIND.decided)
export const periodKey = (kind: 'minute' | 'hour', at: number): Bytes =>
  ofKind(KIND[kind], encodeNumber(at))

export const doubtKey = (number: number, payloadId: Bytes): Bytes =>
  ofKind(KIND.doubt, encodeNumber(number), payloadId)

export function flashblockKey(promised: PromisedFlashblock): Bytes {
  const { number, payloadId, index, transactions } = promised
  const digest = new Uint8Array(8)
  new DataView(digest.buffer).setBigUint64(0, checksum(transactions))
  return ofKind(KIND.flashblock, encodeNumber(number), payloadId, word(index), digest)
}

export const transactionKey = (hash: Bytes, flashblock: Bytes): Bytes =>
  ofKind(KIND.transaction, hash.subarray(0, HALF_HASH), flashblock)

/** The key of the flashblock that promised it. */
export const flashblockOf = (transaction: Bytes): Bytes => transaction.slice(1 + HALF_HASH)

/** All rows of a kind whose keys go on with `prefix`. */
export function rangeOf(kind: keyof typeof KIND, prefix: Bytes = NO_BYTES): Range {
  const gte = ofKind(KIND[kind], prefix)
  const lt = gte.slice()
  // The byte before one that is full; none is before a kind, which never is.
  for (let at = lt.length - 1; ++lt[at]! > 0xff; at--);
  return { gte, lt }
}

/** Flashblocks or doubts of these heights, the last one excluded. */
export const heights = (kind: 'flashblock' | 'doubt', from: number, to: number): Range => ({
  gte: ofKind(KIND[kind], encodeNumber(from)),
  lt: ofKind(KIND[kind], encodeNumber(to)),
})
/** Above all heights. */
export const NO_HEIGHT: number = Number.MAX_SAFE_INTEGER

export const transactionsOf = (hash: Bytes): Range =>
  rangeOf('transaction', hash.subarray(0, HALF_HASH))

export function newFlashblockRow(promised: PromisedFlashblock): Bytes {
  const { transactions, atMs } = promised
  const count = transactions.length / PROMISED_BYTES
  const bytes = new Uint8Array(HEAD_BYTES + count * ITEM_BYTES)
  new DataView(bytes.buffer).setFloat64(0, atMs)
  for (let at = 0; at < count; at++)
    bytes.set(
      transactions.subarray(at * PROMISED_BYTES, (at + 1) * PROMISED_BYTES),
      HEAD_BYTES + at * ITEM_BYTES,
    )
  return bytes
}

/** What a row was made of: `transactions` of the flashblock as it was promised. */
export function promisedIn(value: Bytes): Uint8Array<ArrayBuffer> {
  const count = Math.max(0, Math.floor((value.length - HEAD_BYTES) / ITEM_BYTES))
  const bytes = new Uint8Array(count * PROMISED_BYTES)
  for (let at = 0; at < count; at++) {
    const from = HEAD_BYTES + at * ITEM_BYTES
    bytes.set(value.subarray(from, from + PROMISED_BYTES), at * PROMISED_BYTES)
  }
  return bytes
}

/** What decides on a promise. `hash`: one character per byte. */
export type PromisedPlace = {
  readonly hash: string
  readonly position: number
  readonly fate: Fate
}

/** The same row with other fates, those of a thousand transactions in a millisecond: it is not decoded. */
export function withFates(value: Bytes, fateOf: (promised: PromisedPlace) => Fate): Bytes {
  const bytes = value.slice()
  const view = new DataView(bytes.buffer)
  for (let from = HEAD_BYTES; from < bytes.length; from += ITEM_BYTES) {
    const at = from + PROMISED_BYTES
    const hash = latin1(bytes.subarray(from, from + 32))
    const place = { hash, position: view.getUint32(from + 60), fate: fateAt(bytes[at]!) }
    bytes[at] = FATES.indexOf(fateOf(place))
  }
  return bytes
}

/** Of a row. `decidedAtMs` 0: not decided. */
export type RowHead = Pick<FlashblockRow, 'atMs' | 'decidedAtMs' | 'causes'>

export function decodeHead(value: Bytes): RowHead {
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  return {
    atMs: view.getFloat64(0),
    decidedAtMs: view.getFloat64(8),
    causes: decodeCauses(value[16]!),
  }
}

/** Into a row of the caller's own. */
export function setDecided(value: Bytes, head: Omit<RowHead, 'atMs'>): void {
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  view.setFloat64(8, head.decidedAtMs)
  value[16] = encodeCauses(head.causes)
}

/** `only`: of this transaction alone, without decoding the others. @throws {StoredFormatError} */
export function decodeFlashblockRow(key: Bytes, value: Bytes, only?: Bytes): FlashblockRow {
  const count = (value.length - HEAD_BYTES) / ITEM_BYTES
  if (key.length !== FLASHBLOCK_KEY_BYTES || !Number.isInteger(count) || count < 0)
    throw new StoredFormatError('promises', 0, value.length)
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  const transactions: PromisedTransaction[] = []
  for (let from = HEAD_BYTES; from < value.length; from += ITEM_BYTES) {
    if (only !== undefined && !equalBytes(value.subarray(from, from + 32), only)) continue
    transactions.push({
      hash: value.slice(from, from + 32),
      sender: value.slice(from + 32, from + 52),
      nonce: view.getBigUint64(from + 52),
      position: view.getUint32(from + 60),
      fate: fateAt(value[from + PROMISED_BYTES]!),
    })
  }
  return {
    number: decodeNumber(key, 1),
    payloadId: key.slice(9, 17),
    index: new DataView(key.buffer, key.byteOffset, key.length).getUint32(17),
    ...decodeHead(value),
    transactions,
  }
}

function fateAt(byte: number): Fate {
  const fate = FATES[byte]
  if (fate === undefined) throw new StoredFormatError('fate', byte, FATES.length)
  return fate
}

/** One bit for each. */
export const encodeCauses = (causes: readonly Cause[]): number =>
  causes.reduce((bits, cause) => bits | (1 << CAUSES.indexOf(cause)), 0)
export const decodeCauses = (bits: number): readonly Cause[] =>
  CAUSES.filter((_, at) => (bits & (1 << at)) !== 0)

/** What a row takes, about: RocksDB compresses it, and has some bytes of its own. */
export const sizeOf = ({ key, value }: { readonly key: Bytes; readonly value: Bytes }): number =>
  key.length + value.length + 16

function word(value: number): Bytes {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value)
  return bytes
}
