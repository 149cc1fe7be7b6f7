/** A block in the making: its increments as entries and blobs of its tables. Reserves everything first, then writes. */
import type { ExecutedTransaction } from '../execution/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { encodeHeader } from '../primitives/header-codec.ts'
import { encodeStoredReceipt } from '../primitives/receipt-codec.ts'
import { writeAccount } from '../state/account-codec.ts'
import type { AccountChange, StateDiff } from '../state/diff.ts'
import type { BlockId } from '../storage/types.ts'
import type { Arena } from './arena.ts'
import type { Pages } from './pages.ts'
import {
  ACCOUNT,
  BLOCK_HASH,
  CODE,
  type Cursor,
  createTable,
  type Draft,
  ENTRY_WORDS,
  FINAL,
  HEADER,
  maxEntries,
  putBlob,
  putEntry,
  SLOT,
  TRANSACTION,
  TRANSACTION_HASH,
  tableOverhead,
  usableWords,
} from './table.ts'
import type { BlockHandle, Increment } from './types.ts'

/** The handle as the publisher sees it. `parent` is cut when the block is folded: nothing asks below the base. */
export type Build = {
  readonly id: BlockId
  readonly number: number
  parent: BlockHandle | undefined
  readonly payload: Bytes | undefined
  readonly pages: number[]
  cursor: Cursor | undefined
  /** Newest flashblock index, FINAL when finished, −1 before the first. */
  tag: number
  header: number
  transactions: number
  logs: number
  hash: Bytes | undefined
  isHanded: boolean
  /** Begun, and neither shown nor dropped: kept although no record reaches it. */
  isAwaited: boolean
  isFolded: boolean
}

/** What a header's entry holds: blob, counts, the index shown to callers, the hash. */
export const HEADER_VALUE = { start: 0, length: 1, transactions: 2, index: 3, hash: 4, words: 12 }
/** What a transaction's entry holds. `firstLog`: index in the block of its first log. */
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

export type Builder = {
  /** 'full': no pages, nothing was changed. */
  add(build: Build, increment: Increment): 'added' | 'full'
  finish(build: Build, header: Header, hash: Bytes): 'added' | 'full'
}

export function openBuilder(arena: Arena, pages: Pages): Builder {
  const key = new Int32Array(13)
  const value = new Int32Array(TRANSACTION_VALUE.words)
  const draft: Draft = { kind: 0, tag: 0, valueWords: 0, key, value }
  const keyBytes = new Uint8Array(key.buffer)
  const valueBytes = new Uint8Array(value.buffer)

  /** Reserves pages for `entries` of `words` together and blobs; opens a further table when the index would pass half. */
  function reserve(build: Build, entries: number, words: number): boolean {
    const room = build.cursor === undefined ? 0 : maxEntries(arena) - build.cursor.entries
    const tables = Math.max(0, Math.ceil((entries - room) / maxEntries(arena)))
    const more = words + tables * tableOverhead(arena)
    // Each table begins a page, whatever the one before has left.
    return pages.reserve(Math.ceil(more / usableWords(arena)) + tables + 1)
  }
  const takePage = (build: Build) => {
    const page = pages.take()
    build.pages.push(page)
    return page
  }
  function cursorOf(build: Build): Cursor {
    const { cursor } = build
    if (cursor !== undefined && cursor.entries < maxEntries(arena)) return cursor
    const { parent } = build
    const opened = createTable(arena, takePage(build), {
      id: build.id,
      height: build.number,
      payload: build.payload,
      ...(cursor === undefined
        ? { parent: tableOf(parent), parentHeight: parent?.number ?? build.number - 1 }
        : { parent: cursor.table, parentHeight: build.number }),
    })
    build.cursor = opened
    return opened
  }
  function put(build: Build, kind: number, tag: number, valueWords: number): number {
    draft.kind = kind
    draft.tag = tag
    draft.valueWords = valueWords
    return putEntry(arena, cursorOf(build), draft, () => takePage(build))
  }
  const blob = (build: Build, bytes: Bytes) =>
    putBlob(arena, cursorOf(build), bytes, () => takePage(build))

  function putState(build: Build, tag: number, change: AccountChange) {
    const { after, code } = change
    keyBytes.set(change.address)
    if (after !== undefined) writeAccount(after, valueBytes, 0)
    put(build, ACCOUNT, tag, after === undefined ? 0 : ACCOUNT_VALUE)
    for (const slot of change.slots) {
      keyBytes.set(slot.key, 20)
      const isZero = slot.after.every((byte) => byte === 0)
      if (!isZero) valueBytes.set(slot.after)
      put(build, SLOT, tag, isZero ? 0 : SLOT_VALUE)
    }
    if (after === undefined || code === undefined) return
    value[0] = blob(build, code)
    value[1] = code.length
    keyBytes.set(after.codeHash)
    put(build, CODE, tag, CODE_VALUE)
  }
  function putTransaction(build: Build, tag: number, encoded: EncodedTransaction) {
    const { transaction, receipt } = encoded.executed
    value[TRANSACTION_VALUE.raw] = blob(build, transaction.raw)
    value[TRANSACTION_VALUE.rawLength] = transaction.raw.length
    value[TRANSACTION_VALUE.receipt] = blob(build, encoded.receipt)
    value[TRANSACTION_VALUE.receiptLength] = encoded.receipt.length
    value[TRANSACTION_VALUE.firstLog] = build.logs
    valueBytes.set(transaction.from, TRANSACTION_VALUE.from * 4)
    valueBytes.set(transaction.hash, TRANSACTION_VALUE.hash * 4)
    key[0] = build.transactions
    put(build, TRANSACTION, tag, TRANSACTION_VALUE.words)
    keyBytes.set(transaction.hash)
    value[0] = build.transactions
    put(build, TRANSACTION_HASH, tag, TRANSACTION_HASH_VALUE)
    build.transactions++
    build.logs += receipt.logs.length
  }
  /** `index`: the flashblock index shown to callers. */
  function putHeader(build: Build, tag: number, head: EncodedHeader, index: number) {
    value[HEADER_VALUE.start] = blob(build, head.rlp)
    value[HEADER_VALUE.length] = head.rlp.length
    value[HEADER_VALUE.transactions] = build.transactions
    value[HEADER_VALUE.index] = index
    valueBytes.set(head.hash, HEADER_VALUE.hash * 4)
    key[0] = tag
    build.header = put(build, HEADER, tag, HEADER_VALUE.words)
    keyBytes.set(head.hash)
    value[0] = tag
    put(build, BLOCK_HASH, tag, BLOCK_HASH_VALUE)
    build.tag = tag
    build.hash = head.hash
  }

  return {
    add(build, increment) {
      const { index, diff, hash } = increment
      if (build.tag === FINAL) throw new Error(`views: block ${build.number} is finished already`)
      if (index <= build.tag)
        throw new Error(`views: index ${index} after ${build.tag} in block ${build.number}`)
      const transactions = increment.transactions.map(encodeExecuted)
      const head = { rlp: encodeHeader(increment.header), hash }
      const { entries, words } = sizeOf(diff, transactions, head)
      if (!reserve(build, entries, words)) return 'full'
      for (const change of diff) putState(build, index, change)
      for (const encoded of transactions) putTransaction(build, index, encoded)
      putHeader(build, index, head, index)
      return 'added'
    },
    finish(build, header, hash) {
      if (build.tag === FINAL) throw new Error(`views: block ${build.number} is finished already`)
      if (build.tag < 0) throw new Error(`views: block ${build.number} has no increment`)
      const head = { rlp: encodeHeader(header), hash }
      const { entries, words } = sizeOf([], [], head)
      if (!reserve(build, entries, words)) return 'full'
      putHeader(build, FINAL, head, build.tag)
      return 'added'
    },
  }
}

type EncodedTransaction = { readonly executed: ExecutedTransaction; readonly receipt: Bytes }
type EncodedHeader = { readonly rlp: Bytes; readonly hash: Bytes }

const encodeExecuted = (executed: ExecutedTransaction): EncodedTransaction => ({
  executed,
  receipt: encodeStoredReceipt(executed.receipt),
})

/** Table of a block that is a parent: its last one, 0 when its pages are given back or it never had any. */
const tableOf = (handle: BlockHandle | undefined): number =>
  (handle as Build | undefined)?.cursor?.table ?? 0

const blobWords = (blob: Bytes) => (blob.length + 3) >> 2
const entryWords = (kind: number, valueWords: number) => ENTRY_WORDS + (kind >> 8) + valueWords

/** Entries and words that an increment takes, at most. */
function sizeOf(
  diff: StateDiff,
  transactions: readonly EncodedTransaction[],
  head: EncodedHeader,
): { readonly entries: number; readonly words: number } {
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
