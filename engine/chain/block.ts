/**
 * A block as a request sees it, from diff layers or from the store. Contents are decoded on demand
 * and cached for a while. An existing block also has the environment of its execution.
 */
import type { ChainSpec } from '../chainspec/types.ts'
import type { BlockEnv } from '../evm/engine.ts'
import { blobBaseFee } from '../execution/transaction/fees.ts'
import { type BlockTail, decodeTail, NO_TAIL } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader, type Header } from '../primitives/header.ts'
import type { LogSummary, Receipt } from '../primitives/receipt.ts'
import {
  countStoredLogs,
  decodeStoredReceipt,
  summariseStoredLogs,
} from '../primitives/receipt-codec.ts'
import { nextAt, startAt } from '../primitives/rlp.ts'
import type { Transaction } from '../primitives/transaction.ts'
import { decodeTransaction } from '../primitives/transaction-codec.ts'
import { bytesToBigint } from '../primitives/words.ts'
import type { PartialHeader, StoredBody, StoreReader } from '../storage/types.ts'
import { TRANSACTION_VALUE } from '../views/build.ts'
import type { Position } from '../views/chain-snapshot.ts'
import { FINAL, readBlob, TRANSACTION, valueAt } from '../views/diff-layer.ts'
import type { Lease } from '../views/lease.ts'
import { assertLeased, type ViewThread } from '../views/reader.ts'
import { findInBlock, hashOf, headerOf, indexOf, prepare } from '../views/walk.ts'
import type { Block } from './types.ts'

/**
 * Transactions and receipts of one block by index. Callers stay within the count of their prefix.
 */
type Contents = {
  transaction(index: number): Transaction
  receipt(index: number): Receipt
  summaries(): readonly LogSummary[]
  hash(index: number): Bytes
  firstLogIndex(index: number): number
}

/**
 * Opens a block, or prefix, in the diff layers of a leased snapshot.
 * @param partialHeader limits the block to the prefix with this header, which the store has
 */
export function diffLayerBlock(
  thread: ViewThread,
  lease: Lease,
  at: Position,
  decoded: DecodedBlocks,
  partialHeader?: PartialHeader,
): Block {
  const { arena } = thread
  const visible = { ...at, transactions: partialHeader?.transactionCount ?? at.transactions }
  return makeBlock({
    number: BigInt(at.height),
    hash: partialHeader?.hash ?? hashOf(arena, at),
    flashblockIndex: partialHeader?.index ?? (at.tag === FINAL ? undefined : indexOf(arena, at)),
    isPersisted: false,
    header:
      partialHeader === undefined
        ? decoded.header(`${at.id} ${at.tag} ${at.header}`, () => headerOf(arena, at))
        : lazyHeader(partialHeader.header),
    transactionCount: visible.transactions,
    tail: () => NO_TAIL,
    contents: () => diffLayerContents(thread, lease, visible, decoded.get(`id ${at.id}`)),
  })
}

function diffLayerContents(
  thread: ViewThread,
  lease: Lease,
  at: Position,
  decoded: Decoded,
): Contents {
  const { arena, query } = thread
  const { words } = arena
  /** Returns the first word of the value of a transaction's entry. */
  const find = (index: number) => {
    assertLeased(lease)
    query.key[0] = index
    prepare(arena, query, TRANSACTION)
    const entry = findInBlock(arena, query, at)
    if (entry === 0) throw new Error(`views: block ${at.height} has no transaction ${index}`)
    return valueAt(arena, entry)
  }
  const bytes = (value: number, field: number, length: number) =>
    arena.bytes.slice((value + field) * 4, (value + field) * 4 + length)
  return {
    transaction(index) {
      const value = find(index)
      const start = words[value + TRANSACTION_VALUE.raw]!
      const length = words[value + TRANSACTION_VALUE.rawLength]!
      decoded.transactions[index] ??= decodeTransaction(
        readBlob(arena, start, length),
        bytes(value, TRANSACTION_VALUE.from, 20),
      )
      return decoded.transactions[index]
    },
    receipt(index) {
      const value = find(index)
      const start = words[value + TRANSACTION_VALUE.receipt]!
      const length = words[value + TRANSACTION_VALUE.receiptLength]!
      decoded.receipts[index] ??= decodeStoredReceipt(readBlob(arena, start, length))
      return decoded.receipts[index]
    },
    summaries() {
      return Array.from({ length: at.transactions }, (_, index) => {
        const { logsBloom, logs } = this.receipt(index)
        return { bloom: logsBloom, count: logs.length }
      })
    },
    hash: (index) => bytes(find(index), TRANSACTION_VALUE.hash, 32),
    firstLogIndex: (index) => words[find(index) + TRANSACTION_VALUE.firstLog]!,
  }
}

/** Opens a persisted block. With `partialHeader`, only the prefix that had this header. */
export function storedBlock(source: StoredBlockSource): Block {
  const { store, decoded, hash, partialHeader, missing } = source
  let known: LazyHeader | undefined
  /**
   * The header is read lazily, because most requests for an old block need only its state or a
   * cached text.
   */
  const header = () => {
    known ??= lazyHeader(
      partialHeader?.header ?? store.header(hash) ?? missing(`header of block ${hex(hash)}`),
    )
    return known
  }
  const contents = () => storedContents(source, decoded.get(hex(hash)))
  return makeBlock({
    number: BigInt(source.height),
    hash: partialHeader?.hash ?? hash,
    flashblockIndex: partialHeader?.index,
    isPersisted: partialHeader === undefined,
    header: { full: () => header().full(), logsBloom: () => header().logsBloom() },
    get transactionCount() {
      return partialHeader?.transactionCount ?? contents().count()
    },
    tail() {
      const row = store.tail(hash)
      return row === undefined ? NO_TAIL : decodeTail(row)
    },
    contents,
  })
}

type StoredBlockSource = {
  readonly store: StoreReader
  readonly decoded: DecodedBlocks
  readonly hash: Bytes
  readonly height: number
  readonly partialHeader?: PartialHeader
  /**
   * Called for a row that the store does not have.
   * @throws {ViewError} when the view is void or the block pruned; {Error} otherwise
   */
  readonly missing: (what: string) => never
}

function storedContents(
  { store, hash, partialHeader, missing }: StoredBlockSource,
  decoded: Decoded,
): Contents & { count(): number } {
  const body = () => {
    decoded.body ??= store.body(hash) ?? missing(`body of block ${hex(hash)}`)
    return decoded.body.transactions
  }
  const receipts = () => {
    decoded.storedReceipts ??= store.receipts(hash) ?? missing(`receipts of block ${hex(hash)}`)
    return decoded.storedReceipts
  }
  const receipt = (index: number) => {
    decoded.receipts[index] ??= decodeStoredReceipt(receipts()[index]!)
    return decoded.receipts[index]
  }
  return {
    count: () => body().length,
    transaction(index) {
      const { raw, from } = body()[index]!
      decoded.transactions[index] ??= decodeTransaction(raw, from)
      return decoded.transactions[index]
    },
    receipt,
    summaries: () => receipts().slice(0, partialHeader?.transactionCount).map(summariseStoredLogs),
    hash: (index) => body()[index]!.hash,
    firstLogIndex(index) {
      const { firstLogs } = decoded
      for (let at = firstLogs.length; at <= index; at++)
        firstLogs.push(at === 0 ? 0 : firstLogs[at - 1]! + countStoredLogs(receipts()[at - 1]!))
      return firstLogs[index]!
    },
  }
}

function makeBlock(parts: {
  readonly number: bigint
  readonly hash: Bytes
  readonly flashblockIndex: number | undefined
  readonly isPersisted: boolean
  readonly header: LazyHeader
  readonly transactionCount: number
  readonly tail: () => BlockTail
  readonly contents: () => Contents
}): Block {
  let contents: Contents | undefined
  const read = () => {
    contents ??= parts.contents()
    return contents
  }
  const isIn = (index: number) => index >= 0 && index < parts.transactionCount
  const all = <Item>(item: (index: number) => Item) =>
    Array.from({ length: parts.transactionCount }, (_, index) => item(index))
  return {
    number: parts.number,
    hash: parts.hash,
    flashblockIndex: parts.flashblockIndex,
    isPersisted: parts.isPersisted,
    get header() {
      return parts.header.full()
    },
    get logsBloom() {
      return parts.header.logsBloom()
    },
    get transactionCount() {
      return parts.transactionCount
    },
    transaction: (index) => (isIn(index) ? read().transaction(index) : undefined),
    receipt: (index) => (isIn(index) ? read().receipt(index) : undefined),
    logSummaries: () => read().summaries(),
    transactionHash: (index) => (isIn(index) ? read().hash(index) : undefined),
    transactions: () => all((index) => read().transaction(index)),
    transactionHashes: () => all((index) => read().hash(index)),
    receipts: () => all((index) => read().receipt(index)),
    tail: parts.tail,
    firstLogIndex(index) {
      if (!isIn(index)) throw new RangeError(`block ${parts.number} has no transaction ${index}`)
      return read().firstLogIndex(index)
    },
  }
}

/**
 * Decoded parts of a block. Transactions and receipts at an index never change under one block id
 * or final hash.
 */
type Decoded = {
  readonly transactions: Transaction[]
  readonly receipts: Receipt[]
  body: StoredBody | undefined
  storedReceipts: readonly Bytes[] | undefined
  /** Index of the first log of each transaction, up to the last one requested. */
  readonly firstLogs: number[]
}
export type DecodedBlocks = {
  get(block: string): Decoded
  /**
   * Returns the header with this unique key. `read` runs at the first use, and decoding is lazy.
   */
  header(key: string, read: () => Bytes): LazyHeader
}

/** A header that is decoded only when a caller needs more than the bloom. */
type LazyHeader = {
  readonly full: () => Header
  readonly logsBloom: () => Bytes
}
function lazyHeader(rlp: Bytes): LazyHeader {
  let header: Header | undefined
  return {
    full() {
      header ??= decodeHeader(rlp)
      return header
    },
    logsBloom: () => header?.logsBloom ?? bloomIn(rlp),
  }
}
/** Covers the newest headers of both endpoints and their recent predecessors. */
const MAX_HEADERS = 16

export function openDecodedBlocks(limit: number): DecodedBlocks {
  const blocks = new Map<string, Decoded>()
  const headers = new Map<string, LazyHeader>()
  return {
    header(key, read) {
      const known = headers.get(key)
      if (known !== undefined) return known
      const header = lazyHeader(read())
      if (headers.size === MAX_HEADERS) headers.delete(headers.keys().next().value!)
      headers.set(key, header)
      return header
    },
    get(block) {
      const found = blocks.get(block) ?? {
        transactions: [],
        receipts: [],
        body: undefined,
        storedReceipts: undefined,
        firstLogs: [],
      }
      blocks.delete(block)
      blocks.set(block, found)
      if (blocks.size > limit) blocks.delete(blocks.keys().next().value!)
      return found
    },
  }
}

export const hasLogs = (rlp: Bytes): boolean => bloomIn(rlp).some((byte) => byte !== 0)

/**
 * The fields before the bloom have a fixed size: list prefix for more than 255 bytes, five hashes,
 * address, bloom prefix.
 */
const BLOOM_AT = 3 + 5 * 33 + 21 + 3
const BLOOM_BYTES = 256
export const bloomIn = (rlp: Bytes): Bytes => rlp.subarray(BLOOM_AT, BLOOM_AT + BLOOM_BYTES)

/** Returns the timestamp of a stored header, in seconds. */
export function timestampIn(rlp: Bytes): bigint {
  // Difficulty, number, gas limit and gas used come before the timestamp.
  let at = BLOOM_AT + BLOOM_BYTES
  for (let field = 0; field < 4; field++) at = nextAt(rlp, at)
  return bytesToBigint(rlp.subarray(startAt(rlp, at), nextAt(rlp, at)))
}

const hex = (bytes: Bytes) => `0x${Buffer.from(bytes).toString('hex')}`

/** Returns the environment in which the block of this header was executed. */
export const envOf = (header: Header, chain: ChainSpec): BlockEnv => ({
  number: header.number,
  timestamp: header.timestamp,
  gasLimit: header.gasLimit,
  baseFee: header.baseFeePerGas ?? 0n,
  coinbase: header.coinbase,
  prevRandao: header.mixHash,
  blobBaseFee: blobBaseFee(
    chain.rulesAt(header.number, header.timestamp),
    header.excessBlobGas ?? 0n,
  ),
  difficulty: header.difficulty,
})
