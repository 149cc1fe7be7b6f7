/**
 * A block under construction: its increments become entries and blobs of its diff layers. All pages
 * are reserved before the first write.
 */
import { type ExecutedTransaction, storedReceiptOf } from '../execution/transaction/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { encodeHeader, type Header } from '../primitives/header.ts'
import { writeAccount } from '../state/account-codec.ts'
import type { AccountChange, StateDiff } from '../state/diff.ts'
import type { BlockId } from '../storage/types.ts'
import type { Arena } from './arena.ts'
import {
  ACCOUNT,
  BLOCK_HASH,
  CODE,
  type Cursor,
  createDiffLayer,
  type Draft,
  diffLayerOverhead,
  ENTRY_WORDS,
  FINAL,
  HEADER,
  maxEntries,
  putBlob,
  putEntry,
  SLOT,
  TRANSACTION,
  TRANSACTION_HASH,
  usableWords,
  valueAt,
} from './diff-layer.ts'
import type { Pages } from './pages.ts'
import type { BlockHandle, Increment } from './types.ts'

/**
 * The publisher's own type behind a block handle. Persisting a block clears `parent`, because no
 * lookup goes below the base.
 */
export type Build = {
  readonly id: BlockId
  readonly number: number
  parent: BlockHandle | undefined
  readonly payload: Bytes | undefined
  readonly pages: number[]
  cursor: Cursor | undefined
  /** Newest flashblock index; FINAL for a finished block, −1 before the first increment. */
  tag: number
  header: number
  transactions: number
  logs: number
  hash: Bytes | undefined
  isSubmitted: boolean
  /**
   * The block is started, but neither published nor dropped. Its pages stay although no snapshot
   * reaches them.
   */
  isAwaited: boolean
  isPersisted: boolean
}

/** Word offsets in the value of a header's entry: blob, counts, visible flashblock index, hash. */
export const HEADER_VALUE = { start: 0, length: 1, transactions: 2, index: 3, hash: 4, words: 12 }
/**
 * Word offsets in the value of a transaction's entry. `firstLog` is the block-wide index of the
 * first log.
 */
export const TRANSACTION_VALUE = {
  raw: 0,
  rawLength: 1,
  receipt: 2,
  receiptLength: 3,
  firstLog: 4,
  from: 5,
  hash: 10,
  words: 18,
}

const ACCOUNT_VALUE = 18
const SLOT_VALUE = 8
const CODE_VALUE = 2
const BLOCK_HASH_VALUE = 1
const TRANSACTION_HASH_VALUE = 1

/**
 * Writes increments into the diff layers of their blocks. One scratch entry is reused for every
 * write.
 */
export class Builder {
  readonly #arena: Arena
  readonly #pages: Pages
  readonly #key = new Int32Array(13)
  readonly #value = new Int32Array(TRANSACTION_VALUE.words)
  readonly #keyBytes = new Uint8Array(this.#key.buffer)
  readonly #valueBytes = new Uint8Array(this.#value.buffer)
  readonly #draft: Draft = { kind: 0, tag: 0, valueWords: 0, key: this.#key, value: this.#value }

  constructor(arena: Arena, pages: Pages) {
    this.#arena = arena
    this.#pages = pages
  }

  /** Adds an increment. 'full' means that pages are missing; the block is then unchanged. */
  add(build: Build, increment: Increment): 'added' | 'full' {
    const { index, diff, hash } = increment
    if (build.tag === FINAL) throw new Error(`views: block ${build.number} is finished already`)
    if (index <= build.tag)
      throw new Error(`views: index ${index} after ${build.tag} in block ${build.number}`)
    const transactions = increment.transactions.map(encodeExecuted)
    const head = { rlp: encodeHeader(increment.header), hash }
    if (!this.#reserve(build, sizeOf(diff, transactions, head))) return 'full'
    for (const change of diff) this.#putState(build, index, change)
    for (const encoded of transactions) this.#putTransaction(build, index, encoded)
    this.#putHeader(build, index, head, index)
    return 'added'
  }

  finish(build: Build, header: Header, hash: Bytes): 'added' | 'full' {
    if (build.tag === FINAL) throw new Error(`views: block ${build.number} is finished already`)
    if (build.tag < 0) throw new Error(`views: block ${build.number} has no increment`)
    const head = { rlp: encodeHeader(header), hash }
    if (!this.#reserve(build, sizeOf([], [], head))) return 'full'
    this.#putHeader(build, FINAL, head, build.tag)
    return 'added'
  }

  /**
   * Replaces the header under the same hash. The entry goes into the newest diff layer, where
   * children find it.
   */
  settle(build: Build, header: Header): 'added' | 'full' {
    const { cursor, hash } = build
    if (build.tag !== FINAL || cursor === undefined || hash === undefined)
      throw new Error(`views: block ${build.number} is not finished yet`)
    const head = { rlp: encodeHeader(header), hash }
    if (!this.#reserve(build, sizeOf([], [], head))) return 'full'
    const [arena, takePage] = [this.#arena, () => this.#takePage(build)]
    const from = valueAt(arena, build.header)
    this.#value.set(arena.words.subarray(from, from + HEADER_VALUE.words))
    this.#value[HEADER_VALUE.start] = putBlob(arena, cursor, head.rlp, takePage)
    this.#value[HEADER_VALUE.length] = head.rlp.length
    this.#key[0] = FINAL
    this.#setDraft(HEADER, FINAL, HEADER_VALUE.words)
    build.header = putEntry(arena, cursor, this.#draft, takePage)
    return 'added'
  }

  /**
   * Reserves pages for all entries, their words and their blobs. A further diff layer opens before
   * the index is more than half full.
   */
  #reserve(build: Build, { entries, words }: Size): boolean {
    const arena = this.#arena
    const capacity = build.cursor === undefined ? 0 : maxEntries(arena) - build.cursor.entries
    const diffLayers = Math.max(0, Math.ceil((entries - capacity) / maxEntries(arena)))
    const more = words + diffLayers * diffLayerOverhead(arena)
    // Each diff layer starts on a new page.
    return this.#pages.reserve(Math.ceil(more / usableWords(arena)) + diffLayers + 1)
  }

  #takePage(build: Build): number {
    const page = this.#pages.take()
    build.pages.push(page)
    return page
  }

  #cursorOf(build: Build): Cursor {
    const { cursor } = build
    if (cursor !== undefined && cursor.entries < maxEntries(this.#arena)) return cursor
    const { parent } = build
    const opened = createDiffLayer(this.#arena, this.#takePage(build), {
      id: build.id,
      height: build.number,
      payload: build.payload,
      ...(cursor === undefined
        ? { parent: diffLayerOf(parent), parentHeight: parent?.number ?? build.number - 1 }
        : { parent: cursor.diffLayer, parentHeight: build.number }),
    })
    build.cursor = opened
    return opened
  }

  #put(build: Build, kind: number, tag: number, valueWords: number): number {
    this.#setDraft(kind, tag, valueWords)
    return putEntry(this.#arena, this.#cursorOf(build), this.#draft, () => this.#takePage(build))
  }

  #setDraft(kind: number, tag: number, valueWords: number): void {
    const draft = this.#draft
    draft.kind = kind
    draft.tag = tag
    draft.valueWords = valueWords
  }

  #blob(build: Build, bytes: Bytes): number {
    return putBlob(this.#arena, this.#cursorOf(build), bytes, () => this.#takePage(build))
  }

  #putState(build: Build, tag: number, change: AccountChange): void {
    const { after, code } = change
    const [key, bytes] = [this.#keyBytes, this.#valueBytes]
    key.set(change.address)
    if (after !== undefined) writeAccount(after, bytes, 0)
    this.#put(build, ACCOUNT, tag, after === undefined ? 0 : ACCOUNT_VALUE)
    for (const slot of change.slots) {
      key.set(slot.key, 20)
      const isZero = slot.after.every((byte) => byte === 0)
      if (!isZero) bytes.set(slot.after)
      this.#put(build, SLOT, tag, isZero ? 0 : SLOT_VALUE)
    }
    if (after === undefined || code === undefined) return
    this.#value[0] = this.#blob(build, code)
    this.#value[1] = code.length
    key.set(after.codeHash)
    this.#put(build, CODE, tag, CODE_VALUE)
  }

  #putTransaction(build: Build, tag: number, encoded: EncodedTransaction): void {
    const { transaction, receipt } = encoded.executed
    const value = this.#value
    value[TRANSACTION_VALUE.raw] = this.#blob(build, transaction.raw)
    value[TRANSACTION_VALUE.rawLength] = transaction.raw.length
    value[TRANSACTION_VALUE.receipt] = this.#blob(build, encoded.receipt)
    value[TRANSACTION_VALUE.receiptLength] = encoded.receipt.length
    value[TRANSACTION_VALUE.firstLog] = build.logs
    this.#valueBytes.set(transaction.from, TRANSACTION_VALUE.from * 4)
    this.#valueBytes.set(transaction.hash, TRANSACTION_VALUE.hash * 4)
    this.#key[0] = build.transactions
    this.#put(build, TRANSACTION, tag, TRANSACTION_VALUE.words)
    this.#keyBytes.set(transaction.hash)
    value[0] = build.transactions
    this.#put(build, TRANSACTION_HASH, tag, TRANSACTION_HASH_VALUE)
    build.transactions++
    build.logs += receipt.logs.length
  }

  #putHeader(build: Build, tag: number, head: EncodedHeader, index: number): void {
    const value = this.#value
    value[HEADER_VALUE.start] = this.#blob(build, head.rlp)
    value[HEADER_VALUE.length] = head.rlp.length
    value[HEADER_VALUE.transactions] = build.transactions
    value[HEADER_VALUE.index] = index
    this.#valueBytes.set(head.hash, HEADER_VALUE.hash * 4)
    this.#key[0] = tag
    build.header = this.#put(build, HEADER, tag, HEADER_VALUE.words)
    this.#keyBytes.set(head.hash)
    value[0] = tag
    this.#put(build, BLOCK_HASH, tag, BLOCK_HASH_VALUE)
    build.tag = tag
    build.hash = head.hash
  }
}

type Size = { readonly entries: number; readonly words: number }
type EncodedTransaction = { readonly executed: ExecutedTransaction; readonly receipt: Bytes }
type EncodedHeader = { readonly rlp: Bytes; readonly hash: Bytes }

const encodeExecuted = (executed: ExecutedTransaction): EncodedTransaction => ({
  executed,
  receipt: storedReceiptOf(executed),
})

/**
 * Returns the last diff layer of a parent block; 0 when the block has no pages or had them retired.
 */
const diffLayerOf = (handle: BlockHandle | undefined): number =>
  (handle as Build | undefined)?.cursor?.diffLayer ?? 0

const blobWords = (blob: Bytes) => (blob.length + 3) >> 2
const entryWords = (kind: number, valueWords: number) => ENTRY_WORDS + (kind >> 8) + valueWords

/** Returns the upper limit of what an increment takes. */
function sizeOf(
  diff: StateDiff,
  transactions: readonly EncodedTransaction[],
  head: EncodedHeader,
): Size {
  let entries = 2
  let words =
    entryWords(HEADER, HEADER_VALUE.words) +
    entryWords(BLOCK_HASH, BLOCK_HASH_VALUE) +
    blobWords(head.rlp)
  for (const { slots, code } of diff) {
    entries += 1 + slots.length
    words += entryWords(ACCOUNT, ACCOUNT_VALUE) + slots.length * entryWords(SLOT, SLOT_VALUE)
    if (code === undefined) continue
    entries++
    words += entryWords(CODE, CODE_VALUE) + blobWords(code)
  }
  for (const { executed, receipt } of transactions) {
    entries += 2
    words +=
      entryWords(TRANSACTION, TRANSACTION_VALUE.words) +
      entryWords(TRANSACTION_HASH, TRANSACTION_HASH_VALUE) +
      blobWords(executed.transaction.raw) +
      blobWords(receipt)
  }
  return { entries, words }
}
