/**
 * Rows of blocks, transactions and heads as bytes. Numbers are big-endian: block numbers 8 bytes,
 * counts and lengths 4.
 */

import { type Bytes, type Slab, take } from '../../primitives/bytes.ts'
import { decodeList, encodeList } from '../database/lists.ts'
import type {
  LazyStart,
  PartialHeader,
  StoredBody,
  StoredHead,
  StoredTransaction,
  TransactionLocation,
} from '../types.ts'

/**
 * Encodes a number in 8 bytes, so that keys sort by number.
 * @throws {RangeError}
 */
export function encodeNumber(number: number): Bytes {
  if (!Number.isSafeInteger(number) || number < 0)
    throw new RangeError(`${number} is no block number`)
  const bytes = new Uint8Array(8)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, Math.floor(number / 2 ** 32))
  view.setUint32(4, number >>> 0)
  return bytes
}

export function decodeNumber(bytes: Bytes, offset = 0): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset, 8)
  return view.getUint32(0) * 2 ** 32 + view.getUint32(4)
}

/**
 * Appends a number to a key: a history key, or a bound of a range.
 * @param slab memory for the result, where thousands are made
 */
export function withNumber(key: Bytes, number: number, slab?: Slab): Bytes {
  const bytes = slab === undefined ? new Uint8Array(key.length + 8) : take(slab, key.length + 8)
  bytes.set(key)
  const high = Math.floor(number / 2 ** 32)
  for (let at = 0; at < 4; at++) {
    bytes[key.length + at] = high >>> (24 - 8 * at)
    bytes[key.length + 4 + at] = number >>> (24 - 8 * at)
  }
  return bytes
}

/** Number followed by a hash, for keys that sort by height. */
export function numberThen(number: number, hash: Bytes): Bytes {
  const bytes = new Uint8Array(8 + hash.length)
  bytes.set(encodeNumber(number))
  bytes.set(hash, 8)
  return bytes
}

/** Number (8) ‖ hash. */
export const encodeHead = ({ number, hash }: StoredHead): Bytes => numberThen(number, hash)

export const decodeHead = (bytes: Bytes): StoredHead => ({
  number: decodeNumber(bytes),
  hash: bytes.slice(8),
})

/** Number (8) ‖ number (8) ‖ hash. */
export const encodeLazyStart = ({ block, oldestBlock }: LazyStart): Bytes =>
  numberThen(oldestBlock, encodeHead(block))

export const decodeLazyStart = (bytes: Bytes): LazyStart => ({
  oldestBlock: decodeNumber(bytes),
  block: decodeHead(bytes.subarray(8)),
})

/** Key in the column of code for the address of an account that has the code. */
export function originKey(hash: Bytes): Bytes {
  const key = new Uint8Array(33)
  key.set(hash)
  return key
}

/** Key in the column of bodies for the block's tail. */
export function tailKey(hash: Bytes): Bytes {
  const key = new Uint8Array(33)
  key.set(hash)
  return key
}

/** Key in the column of slots. */
export function slotKey(address: Bytes, slot: Bytes): Bytes {
  const key = new Uint8Array(52)
  key.set(address)
  key.set(slot, 20)
  return key
}

/** A list whose items are sender (20) ‖ hash (32) ‖ signed envelope. */
export function encodeBody(transactions: readonly StoredTransaction[]): Bytes {
  return encodeList(
    transactions.map(({ from, hash, raw }) => {
      const bytes = new Uint8Array(52 + raw.length)
      bytes.set(from)
      bytes.set(hash, 20)
      bytes.set(raw, 52)
      return bytes
    }),
  )
}

export function decodeBody(bytes: Bytes): StoredBody {
  const transactions = decodeList(bytes).map((item) => ({
    from: item.subarray(0, 20),
    hash: item.subarray(20, 52),
    raw: item.subarray(52),
  }))
  return { transactions }
}

/** Block (8) ‖ index (4). */
export function encodeTransactionLocation({ blockNumber, index }: TransactionLocation): Bytes {
  const bytes = new Uint8Array(12)
  bytes.set(encodeNumber(blockNumber))
  new DataView(bytes.buffer).setUint32(8, index)
  return bytes
}

export const decodeTransactionLocation = (bytes: Bytes): TransactionLocation => ({
  blockNumber: decodeNumber(bytes),
  index: new DataView(bytes.buffer, bytes.byteOffset, 12).getUint32(8),
})

/**
 * Block hash (32) ‖ flashblock index (4) ‖ transaction count (4) ‖ header. The row's key is the
 * partial hash.
 */
export function encodePartialHeader(blockHash: Bytes, partialHeader: PartialHeader): Bytes {
  const bytes = new Uint8Array(40 + partialHeader.header.length)
  bytes.set(blockHash)
  const view = new DataView(bytes.buffer)
  view.setUint32(32, partialHeader.index)
  view.setUint32(36, partialHeader.transactionCount)
  bytes.set(partialHeader.header, 40)
  return bytes
}

export function decodePartialHeader(
  hash: Bytes,
  bytes: Bytes,
): PartialHeader & { readonly blockHash: Bytes } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 40)
  return {
    hash,
    blockHash: bytes.slice(0, 32),
    index: view.getUint32(32),
    transactionCount: view.getUint32(36),
    header: bytes.slice(40),
  }
}
