/** A block as a request sees it, from a view's tables or from the store: decoded when asked, and kept a while decoded. */
import { type BlockTail, decodeTail, NO_TAIL } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
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
import type { MomentaryHeader, StoredBody, StoreReader } from '../storage/types.ts'
import { TRANSACTION_VALUE } from '../views/build.ts'
import type { Lease } from '../views/lease.ts'
import { assertHeld, type ViewThread } from '../views/reader.ts'
import type { Position } from '../views/record.ts'
import { FINAL, readBlob, TRANSACTION, valueAt } from '../views/table.ts'
import { findInBlock, hashOf, headerOf, indexOf, prepare } from '../views/walk.ts'
import type { Block } from './types.ts'

/** Transactions and receipts of one block by index. Callers keep to the count of their prefix. */
type Contents = {
  transaction(index: number): Transaction
  receipt(index: number): Receipt
  summaries(): readonly LogSummary[]
  hash(index: number): Bytes
  firstLogIndex(index: number): number
}

/** A block, or prefix, in the tables of a leased record; `momentary`: only the prefix that had this header, which the store has kept. */
export function tableBlock(
  thread: ViewThread,
  lease: Lease,
  at: Position,
  decoded: DecodedBlocks,
  momentary?: MomentaryHeader,
): Block {
  const { arena } = thread
  const shown = { ...at, transactions: momentary?.transactionCount ?? at.transactions }
  return makeBlock({
    number: BigInt(at.height),
    hash: momentary?.hash ?? hashOf(arena, at),
    flashblockIndex: momentary?.index ?? (at.tag === FINAL ? undefined : indexOf(arena, at)),
    isFolded: false,
    header:
      momentary === undefined
        ? decoded.header(`${at.id} ${at.tag} ${at.header}`, () => headerOf(arena, at))
        : lazyHeader(momentary.header),
    transactionCount: shown.transactions,
    tail: () => NO_TAIL,
    contents: () => tableContents(thread, lease, shown, decoded.get(`id ${at.id}`)),
  })
}

function tableContents(thread: ViewThread, lease: Lease, at: Position, decoded: Decoded): Contents {
  const { arena, query } = thread
  const { words } = arena
  /** First word of the value of a transaction's entry. */
  const find = (index: number) => {
    assertHeld(lease)
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

/** A folded block of height `height`; `momentary`: only the prefix that had this header. */
export function storedBlock(place: StoredPlace): Block {
  const { store, decoded, hash, momentary, missing } = place
  let known: LazyHeader | undefined
  /** Most that ask for an old block want its state, or a text that is kept. */
  const header = () => {
    known ??= lazyHeader(
      momentary?.header ?? store.header(hash) ?? missing(`header of block ${hex(hash)}`),
    )
    return known
  }
  const contents = () => storedContents(place, decoded.get(hex(hash)))
  return makeBlock({
    number: BigInt(place.height),
    hash: momentary?.hash ?? hash,
    flashblockIndex: momentary?.index,
    isFolded: momentary === undefined,
    header: { whole: () => header().whole(), logsBloom: () => header().logsBloom() },
    get transactionCount() {
      return momentary?.transactionCount ?? contents().count()
    },
    tail() {
      const row = store.tail(hash)
      return row === undefined ? NO_TAIL : decodeTail(row)
    },
    contents,
  })
}

type StoredPlace = {
  readonly store: StoreReader
  readonly decoded: DecodedBlocks
  readonly hash: Bytes
  readonly height: number
  readonly momentary?: MomentaryHeader
  /** The store does not have it. @throws {ViewError} when the view may not ask any more; {Error} otherwise. */
  readonly missing: (what: string) => never
}

function storedContents(
  { store, hash, momentary, missing }: StoredPlace,
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
    summaries: () => receipts().slice(0, momentary?.transactionCount).map(summariseStoredLogs),
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
  readonly isFolded: boolean
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
    isFolded: parts.isFolded,
    get header() {
      return parts.header.whole()
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

/** What was decoded of a block; transactions and receipts at an index never change for one block id or final hash. */
type Decoded = {
  readonly transactions: Transaction[]
  readonly receipts: Receipt[]
  body: StoredBody | undefined
  storedReceipts: readonly Bytes[] | undefined
  /** Of each transaction, as far as they were asked for. */
  readonly firstLogs: number[]
}
export type DecodedBlocks = {
  get(block: string): Decoded
  /** `place` is of this header alone: it is read at the first use, and decoded when asked. */
  header(place: string, read: () => Bytes): LazyHeader
}

/** A header of which most are asked for little. */
type LazyHeader = {
  readonly whole: () => Header
  readonly logsBloom: () => Bytes
}
function lazyHeader(rlp: Bytes): LazyHeader {
  let header: Header | undefined
  return {
    whole() {
      header ??= decodeHeader(rlp)
      return header
    },
    logsBloom: () => header?.logsBloom ?? bloomIn(rlp),
  }
}
/** The newest of both endpoints, and those that were so a moment ago. */
const MAX_HEADERS = 16

/** Keeps the `limit` blocks asked for last. */
export function openDecodedBlocks(limit: number): DecodedBlocks {
  const blocks = new Map<string, Decoded>()
  const headers = new Map<string, LazyHeader>()
  return {
    header(place, read) {
      const known = headers.get(place)
      if (known !== undefined) return known
      const header = lazyHeader(read())
      if (headers.size === MAX_HEADERS) headers.delete(headers.keys().next().value!)
      headers.set(place, header)
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

/** Of a header as it is stored. */
export const hasLogs = (rlp: Bytes): boolean => bloomIn(rlp).some((byte) => byte !== 0)

/** The fields before the bloom have one length in every header: a list of more than 255 bytes, five hashes, an address. */
const BLOOM_AT = 3 + 5 * 33 + 21 + 3
const BLOOM_BYTES = 256
/** Of a header as it is stored. */
export const bloomIn = (rlp: Bytes): Bytes => rlp.subarray(BLOOM_AT, BLOOM_AT + BLOOM_BYTES)

/** Seconds, of a header as it is stored. */
export function timestampIn(rlp: Bytes): bigint {
  // Difficulty, number, gas limit and gas used stand between.
  let at = BLOOM_AT + BLOOM_BYTES
  for (let field = 0; field < 4; field++) at = nextAt(rlp, at)
  return bytesToBigint(rlp.subarray(startAt(rlp, at), nextAt(rlp, at)))
}

const hex = (bytes: Bytes) => `0x${Buffer.from(bytes).toString('hex')}`
