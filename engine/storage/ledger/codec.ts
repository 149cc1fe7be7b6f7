/**
 * Rows of the ledger. Keys start with their kind, numbers are big-endian.
 *
 * | kind | key → value |
 * |---|---|
 * | flashblock | block (8) ‖ payload (8) ‖ index (4) ‖ checksum (8) of promises → row below |
 * | transaction | first half of its hash (16) ‖ the key of its flashblock → nothing |
 * | suspicion | block (8) ‖ payload (8) → causes (1), until the block is decided |
 * | minute, hour, total | the minute or hour since 1970 (8), nothing → counts.ts |
 * | decided | → block (8) of the last decided height ‖ approximate bytes (8) of all rows |
 *
 * The row of a flashblock is time (8) ‖ decision time (8) ‖ causes (1) ‖ transactions.
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
  PROMISE_OUTCOMES,
  PROMISED_BYTES,
  type PromisedFlashblock,
  type PromiseOutcome,
} from '../ledger-types.ts'

export const KIND = {
  flashblock: 1,
  transaction: 2,
  suspicion: 3,
  minute: 4,
  hour: 5,
  total: 6,
  decided: 7,
} as const

export type FlashblockRow = {
  readonly number: number
  readonly payloadId: Bytes
  readonly index: number
  readonly atMs: number
  /** 0 if the promises are not decided. */
  readonly decidedAtMs: number
  readonly causes: readonly Cause[]
  readonly transactions: readonly PromisedTransaction[]
}
export type PromisedTransaction = {
  readonly hash: Bytes
  readonly sender: Bytes
  readonly nonce: bigint
  readonly position: number
  readonly outcome: PromiseOutcome
}

const HEAD_BYTES = 17
/** A promise ‖ outcome (1). */
const ITEM_BYTES = PROMISED_BYTES + 1
const FLASHBLOCK_KEY_BYTES = 29
const HALF_HASH = 16

const ofKind = (kind: number, ...parts: readonly Bytes[]): Bytes =>
  concatBytes(Uint8Array.of(kind), ...parts)

export const TOTAL_KEY: Bytes = Uint8Array.of(KIND.total)
export const DECIDED_KEY: Bytes = Uint8Array.of(KIND.decided)
export const periodKey = (kind: 'minute' | 'hour', at: number): Bytes =>
  ofKind(KIND[kind], encodeNumber(at))

export const suspicionKey = (number: number, payloadId: Bytes): Bytes =>
  ofKind(KIND.suspicion, encodeNumber(number), payloadId)

export function flashblockKey(promised: PromisedFlashblock): Bytes {
  const { number, payloadId, index, transactions } = promised
  const digest = new Uint8Array(8)
  new DataView(digest.buffer).setBigUint64(0, checksum(transactions))
  return ofKind(KIND.flashblock, encodeNumber(number), payloadId, word(index), digest)
}

export const transactionKey = (hash: Bytes, flashblock: Bytes): Bytes =>
  ofKind(KIND.transaction, hash.subarray(0, HALF_HASH), flashblock)

/** Key of the flashblock that made the promise. */
export const flashblockOf = (transaction: Bytes): Bytes => transaction.slice(1 + HALF_HASH)

/** Range of all rows of a kind whose keys continue with `prefix`. */
export function rangeOf(kind: keyof typeof KIND, prefix: Bytes = NO_BYTES): Range {
  const gte = ofKind(KIND[kind], prefix)
  const lt = gte.slice()
  // The carry ends at the kind at the latest, because a kind is never 0xff.
  for (let at = lt.length - 1; ++lt[at]! > 0xff; at--);
  return { gte, lt }
}

/** Flashblocks or suspicions from one height up to but not including another. */
export const heights = (kind: 'flashblock' | 'suspicion', from: number, to: number): Range => ({
  gte: ofKind(KIND[kind], encodeNumber(from)),
  lt: ofKind(KIND[kind], encodeNumber(to)),
})
/** Upper bound of all heights. */
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

/** Restores `transactions` of the promised flashblock from its row. */
export function promisedIn(value: Bytes): Uint8Array<ArrayBuffer> {
  const count = Math.max(0, Math.floor((value.length - HEAD_BYTES) / ITEM_BYTES))
  const bytes = new Uint8Array(count * PROMISED_BYTES)
  for (let at = 0; at < count; at++) {
    const from = HEAD_BYTES + at * ITEM_BYTES
    bytes.set(value.subarray(from, from + PROMISED_BYTES), at * PROMISED_BYTES)
  }
  return bytes
}

/** Part of a promise that decides on its outcome. `hash`: one character per byte. */
export type PromisedEntry = {
  readonly hash: string
  readonly position: number
  readonly outcome: PromiseOutcome
}

/**
 * Copies a row with other outcomes. The row is not decoded, so a thousand transactions take a
 * millisecond.
 */
export function withOutcomes(
  value: Bytes,
  outcomeOf: (promised: PromisedEntry) => PromiseOutcome,
): Bytes {
  const bytes = value.slice()
  const view = new DataView(bytes.buffer)
  for (let from = HEAD_BYTES; from < bytes.length; from += ITEM_BYTES) {
    const at = from + PROMISED_BYTES
    const hash = latin1(bytes.subarray(from, from + 32))
    const promised = { hash, position: view.getUint32(from + 60), outcome: outcomeAt(bytes[at]!) }
    bytes[at] = PROMISE_OUTCOMES.indexOf(outcomeOf(promised))
  }
  return bytes
}

/** Head of a row. `decidedAtMs` is 0 if the promises are not decided. */
export type RowHead = Pick<FlashblockRow, 'atMs' | 'decidedAtMs' | 'causes'>

export function decodeHead(value: Bytes): RowHead {
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  return {
    atMs: view.getFloat64(0),
    decidedAtMs: view.getFloat64(8),
    causes: decodeCauses(value[16]!),
  }
}

/** Writes the decision into a row, which is changed in place. */
export function setDecided(value: Bytes, head: Omit<RowHead, 'atMs'>): void {
  const view = new DataView(value.buffer, value.byteOffset, value.length)
  view.setFloat64(8, head.decidedAtMs)
  value[16] = encodeCauses(head.causes)
}

/**
 * Decodes a row.
 * @param only decodes this transaction alone
 * @throws {StoredFormatError}
 */
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
      outcome: outcomeAt(value[from + PROMISED_BYTES]!),
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

function outcomeAt(byte: number): PromiseOutcome {
  const outcome = PROMISE_OUTCOMES[byte]
  if (outcome === undefined) throw new StoredFormatError('fate', byte, PROMISE_OUTCOMES.length)
  return outcome
}

/** One bit for each cause. */
export const encodeCauses = (causes: readonly Cause[]): number =>
  causes.reduce((bits, cause) => bits | (1 << CAUSES.indexOf(cause)), 0)
export const decodeCauses = (bits: number): readonly Cause[] =>
  CAUSES.filter((_, at) => (bits & (1 << at)) !== 0)

/** Approximate size of a row. RocksDB compresses rows and adds some bytes. */
export const sizeOf = ({ key, value }: { readonly key: Bytes; readonly value: Bytes }): number =>
  key.length + value.length + 16

function word(value: number): Bytes {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value)
  return bytes
}
