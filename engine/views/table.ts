/**
 * Tables: the changes of one block in pages of its own. An index of word offsets (open addressing, at most half full), entries that are
 * only ever added, and blobs that stream from page to page. A block that outgrows its index continues in a further table that links the
 * first as its parent (ADR 3).
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { BlockId } from '../storage/types.ts'
import { type Arena, hashKey } from './arena.ts'

/** Kinds of entries: number in the low byte, words of the key above it. By hash: 8 words, by index: 1. */
export const ACCOUNT = 1 | (5 << 8)
export const SLOT = 2 | (13 << 8)
export const TRANSACTION_HASH = 3 | (8 << 8)
export const BLOCK_HASH = 4 | (8 << 8)
export const CODE = 5 | (8 << 8)
export const TRANSACTION = 6 | (1 << 8)
export const HEADER = 7 | (1 << 8)

/** Tag of what is known at the end of a block; as a limit: everything. */
export const FINAL = 0x7fff_ffff

/** Entry: hash, tag, older entry of the key in this table, kind | words of the value << 16, key, value. */
export const ENTRY_WORDS = 4
/** An account takes 27 words. */
const MAX_ENTRY_WORDS = 32

/** A page begins with the word offset of the next page of its table. */
const NEXT = 0
/** Header of a table, in its first page. */
const ID = 1
const HEIGHT = 2
const PARENT = 3
const PARENT_HEIGHT = 4
const MASK = 5
const HAS_PAYLOAD = 6
const PAYLOAD = 7
const INDEX = 16

/** Where the writer stands in the newest table of a block. */
export type Cursor = {
  readonly table: number
  /** Next free word and the end of its page. */
  at: number
  end: number
  entries: number
}

/** Words of the index: half a page. */
export const indexWords = (arena: Arena) => arena.pageWords >> 1
/** Entries a table takes: its index is then half full. */
export const maxEntries = (arena: Arena) => indexWords(arena) >> 1
/** What a page holds for certain, when entries that do not fit go to the next one. */
export const usableWords = (arena: Arena) => arena.pageWords - 1 - MAX_ENTRY_WORDS
/** Words of a table's first page that are not for entries and blobs. */
export const tableOverhead = (arena: Arena) => INDEX - 1 + indexWords(arena)

/** Makes a page the first of a new table. `parent`: offset of the table below, 0 when there is none any more. */
export function createTable(
  arena: Arena,
  page: number,
  head: {
    readonly id: BlockId
    readonly height: number
    readonly parent: number
    readonly parentHeight: number
    readonly payload: Bytes | undefined
  },
): Cursor {
  const { words } = arena
  const capacity = indexWords(arena)
  words.fill(0, page, page + INDEX + capacity)
  words[page + ID] = head.id
  words[page + HEIGHT] = head.height
  words[page + PARENT] = head.parent
  words[page + PARENT_HEIGHT] = head.parentHeight
  words[page + MASK] = capacity - 1
  if (head.payload !== undefined) {
    words[page + HAS_PAYLOAD] = 1
    arena.bytes.set(head.payload, (page + PAYLOAD) * 4)
  }
  return { table: page, at: page + INDEX + capacity, end: page + arena.pageWords, entries: 0 }
}

export const blockIdOf = (arena: Arena, table: number): BlockId => arena.words[table + ID]!
export const heightOf = (arena: Arena, table: number) => arena.words[table + HEIGHT]!
export const parentOf = (arena: Arena, table: number) => arena.words[table + PARENT]!
export const parentHeightOf = (arena: Arena, table: number) => arena.words[table + PARENT_HEIGHT]!
/** 8 bytes; undefined: the block came without a feed. */
export const payloadOf = (arena: Arena, table: number): Bytes | undefined =>
  arena.words[table + HAS_PAYLOAD] === 0
    ? undefined
    : arena.bytes.slice((table + PAYLOAD) * 4, (table + PAYLOAD) * 4 + 8)

/**
 * Newest entry of the key whose tag is at most `limit`, 0 when there is none. The index word is the only one read atomically: it was
 * stored after all that it leads to.
 */
export function findEntry(
  arena: Arena,
  table: number,
  want: {
    readonly kind: number
    readonly key: Int32Array
    readonly hash: number
    readonly limit: number
  },
): number {
  const { words } = arena
  const { kind, key, hash, limit } = want
  const mask = words[table + MASK]!
  const index = table + INDEX
  for (let i = hash & mask; ; i = (i + 1) & mask) {
    let entry = Atomics.load(words, index + i)
    if (entry === 0) return 0
    if (words[entry] !== hash || !isKey(words, entry, kind, key)) continue
    while (entry !== 0 && words[entry + 1]! > limit) entry = words[entry + 2]!
    return entry
  }
}

function isKey(words: Int32Array, entry: number, kind: number, key: Int32Array): boolean {
  if ((words[entry + 3]! & 0xffff) !== kind) return false
  const at = entry + ENTRY_WORDS
  for (let i = (kind >> 8) - 1; i >= 0; i--) if (words[at + i] !== key[i]) return false
  return true
}

/** First word of an entry's value, and how many words it has: 0 for what is absent. */
export const valueAt = (arena: Arena, entry: number) =>
  entry + ENTRY_WORDS + ((arena.words[entry + 3]! >> 8) & 0xff)
export const valueWordsOf = (arena: Arena, entry: number) => arena.words[entry + 3]! >>> 16

/** First word of an entry's key, and its hash. */
export const keyAt = (entry: number) => entry + ENTRY_WORDS
export const hashAt = (arena: Arena, entry: number) => arena.words[entry]!
export const isOfKind = (arena: Arena, entry: number, kind: number): boolean =>
  (arena.words[entry + 3]! & 0xffff) === kind

/** Newest entries, tag at most `limit`, of every key of a kind in one table: a scan, for rare questions. */
export function* entriesOf(
  arena: Arena,
  table: number,
  kind: number,
  limit: number,
): Generator<number> {
  for (const entry of newestEntries(arena, table, { after: -1, limit }))
    if (isOfKind(arena, entry, kind)) yield entry
}

/** The same of all kinds, where their tag is above `after`. */
export function* newestEntries(
  arena: Arena,
  table: number,
  { after, limit }: { readonly after: number; readonly limit: number },
): Generator<number> {
  const { words } = arena
  const last = words[table + MASK]!
  for (let i = 0; i <= last; i++) {
    let entry = Atomics.load(words, table + INDEX + i)
    while (entry !== 0 && words[entry + 1]! > limit) entry = words[entry + 2]!
    if (entry !== 0 && words[entry + 1]! > after) yield entry
  }
}

/** What one put takes: key and value words stand in `key` and `value`. */
export type Draft = {
  kind: number
  tag: number
  valueWords: number
  readonly key: Int32Array
  readonly value: Int32Array
}

/** Adds an entry: complete first, then its index word. The caller has made sure of pages and of room in the index. */
export function putEntry(
  arena: Arena,
  cursor: Cursor,
  draft: Draft,
  takePage: () => number,
): number {
  const { words } = arena
  const { kind, key, value, valueWords } = draft
  const keyWords = kind >> 8
  const size = ENTRY_WORDS + keyWords + valueWords
  if (cursor.at + size > cursor.end) nextPage(arena, cursor, takePage)
  const entry = cursor.at
  cursor.at += size
  const hash = hashKey(arena.seed, key, keyWords)
  const { slot, older } = findSlot(arena, cursor.table, { kind, key, hash })
  words[entry] = hash
  words[entry + 1] = draft.tag
  words[entry + 2] = older
  words[entry + 3] = kind | (valueWords << 16)
  for (let i = 0; i < keyWords; i++) words[entry + ENTRY_WORDS + i] = key[i]!
  for (let i = 0; i < valueWords; i++) words[entry + ENTRY_WORDS + keyWords + i] = value[i]!
  if (older === 0) cursor.entries++
  Atomics.store(words, slot, entry)
  return entry
}

/** The index word of a key, or the free one it would take. */
function findSlot(
  arena: Arena,
  table: number,
  want: { readonly kind: number; readonly key: Int32Array; readonly hash: number },
): { readonly slot: number; readonly older: number } {
  const { words } = arena
  const mask = words[table + MASK]!
  for (let i = want.hash & mask; ; i = (i + 1) & mask) {
    const slot = table + INDEX + i
    const entry = Atomics.load(words, slot)
    if (entry === 0) return { slot, older: 0 }
    if (words[entry] === want.hash && isKey(words, entry, want.kind, want.key))
      return { slot, older: entry }
  }
}

/** Writes bytes from the cursor on; returns the word where they begin. */
export function putBlob(arena: Arena, cursor: Cursor, blob: Bytes, takePage: () => number): number {
  if (cursor.at === cursor.end) nextPage(arena, cursor, takePage)
  const start = cursor.at
  for (let done = 0; done < blob.length; ) {
    if (cursor.at === cursor.end) nextPage(arena, cursor, takePage)
    const part = Math.min(blob.length - done, (cursor.end - cursor.at) * 4)
    arena.bytes.set(blob.subarray(done, done + part), cursor.at * 4)
    cursor.at += (part + 3) >> 2
    done += part
  }
  return start
}

/** A copy of a blob. */
export function readBlob(arena: Arena, start: number, length: number): Bytes {
  const blob = new Uint8Array(length)
  let at = start
  let end = pageOf(arena, start) + arena.pageWords
  for (let done = 0; done < length; ) {
    if (at === end) {
      const page = Atomics.load(arena.words, end - arena.pageWords + NEXT)
      at = page + 1
      end = page + arena.pageWords
    }
    const part = Math.min(length - done, (end - at) * 4)
    blob.set(arena.bytes.subarray(at * 4, at * 4 + part), done)
    at += (part + 3) >> 2
    done += part
  }
  return blob
}

const pageOf = (arena: Arena, word: number) => word - ((word - arena.pages) & (arena.pageWords - 1))

function nextPage(arena: Arena, cursor: Cursor, takePage: () => number): void {
  const page = takePage()
  Atomics.store(arena.words, page + NEXT, 0)
  Atomics.store(arena.words, cursor.end - arena.pageWords + NEXT, page)
  cursor.at = page + 1
  cursor.end = page + arena.pageWords
}
