/**
 * Diff layers store the changes of one block in pages of its own (ADR 3).
 * A layer has an index of word offsets, append-only entries, and blobs that continue across pages.
 * The index uses open addressing and is at most half full. A block that outgrows its index
 * continues in a further layer, whose parent is the first one.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { BlockId } from '../storage/types.ts'
import { type Arena, hashKey } from './arena.ts'

/**
 * Kinds of entries: number in the low byte, words of the key above. A hash key has 8 words, an
 * index key 1.
 */
export const ACCOUNT = 1 | (5 << 8)
export const SLOT = 2 | (13 << 8)
export const TRANSACTION_HASH = 3 | (8 << 8)
export const BLOCK_HASH = 4 | (8 << 8)
export const CODE = 5 | (8 << 8)
export const TRANSACTION = 6 | (1 << 8)
export const HEADER = 7 | (1 << 8)

/** Tag of the state at the end of a block. As a limit, FINAL includes every entry. */
export const FINAL = 0x7fff_ffff

/**
 * Words of an entry: hash, tag, older entry of the key in the layer, kind | value words << 16, key,
 * value.
 */
export const ENTRY_WORDS = 4
/** The largest entry, an account, takes 27 words. */
const MAX_ENTRY_WORDS = 32

/** The first word of a page is the offset of the layer's next page. */
const NEXT = 0
/** Word offsets of a diff layer's header, in its first page. */
const ID = 1
const HEIGHT = 2
const PARENT = 3
const PARENT_HEIGHT = 4
const MASK = 5
const HAS_PAYLOAD = 6
const PAYLOAD = 7
const INDEX = 16

/** Write position in the newest diff layer of a block. */
export type Cursor = {
  readonly diffLayer: number
  /** Next free word and the end of its page. */
  at: number
  end: number
  entries: number
}

export const indexWords = (arena: Arena) => arena.pageWords >> 1
/** A full diff layer has an index that is half full. */
export const maxEntries = (arena: Arena) => indexWords(arena) >> 1
/**
 * Words of a page that can always be used. The rest may stay empty when the next entry does not
 * fit.
 */
export const usableWords = (arena: Arena) => arena.pageWords - 1 - MAX_ENTRY_WORDS
/** Words of a diff layer's first page that are not for entries and blobs. */
export const diffLayerOverhead = (arena: Arena) => INDEX - 1 + indexWords(arena)

/**
 * Turns a page into the first page of a new diff layer. `parent` is the layer below, 0 when no such
 * layer is left.
 */
export function createDiffLayer(
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
  return { diffLayer: page, at: page + INDEX + capacity, end: page + arena.pageWords, entries: 0 }
}

export const blockIdOf = (arena: Arena, diffLayer: number): BlockId => arena.words[diffLayer + ID]!
export const heightOf = (arena: Arena, diffLayer: number) => arena.words[diffLayer + HEIGHT]!
export const parentOf = (arena: Arena, diffLayer: number) => arena.words[diffLayer + PARENT]!
export const parentHeightOf = (arena: Arena, diffLayer: number) =>
  arena.words[diffLayer + PARENT_HEIGHT]!
/** Returns the payload id, 8 bytes; undefined when the block came without a feed. */
export const payloadOf = (arena: Arena, diffLayer: number): Bytes | undefined =>
  arena.words[diffLayer + HAS_PAYLOAD] === 0
    ? undefined
    : arena.bytes.slice((diffLayer + PAYLOAD) * 4, (diffLayer + PAYLOAD) * 4 + 8)

/**
 * Returns the newest entry of the key whose tag is at most `limit`, or 0.
 * Only the index word needs an atomic read, because it is stored after everything that it leads to.
 */
export function findEntry(
  arena: Arena,
  diffLayer: number,
  want: {
    readonly kind: number
    readonly key: Int32Array
    readonly hash: number
    readonly limit: number
  },
): number {
  const { words } = arena
  const { kind, key, hash, limit } = want
  const mask = words[diffLayer + MASK]!
  const index = diffLayer + INDEX
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

/** First word of an entry's value, and the value's number of words. An absent value has 0 words. */
export const valueAt = (arena: Arena, entry: number) =>
  entry + ENTRY_WORDS + ((arena.words[entry + 3]! >> 8) & 0xff)
export const valueWordsOf = (arena: Arena, entry: number) => arena.words[entry + 3]! >>> 16

/** First word of an entry's key, and the hash of the key. */
export const keyAt = (entry: number) => entry + ENTRY_WORDS
export const hashAt = (arena: Arena, entry: number) => arena.words[entry]!
export const isOfKind = (arena: Arena, entry: number, kind: number): boolean =>
  (arena.words[entry + 3]! & 0xffff) === kind

/**
 * Yields the newest entry of every key of a kind, with a tag up to `limit`. The scan of the whole
 * index is slow.
 */
export function* entriesOf(
  arena: Arena,
  diffLayer: number,
  kind: number,
  limit: number,
): Generator<number> {
  for (const entry of newestEntries(arena, diffLayer, { after: -1, limit }))
    if (isOfKind(arena, entry, kind)) yield entry
}

/** Yields the newest entry of every key whose tag is above `after` and at most `limit`. */
export function* newestEntries(
  arena: Arena,
  diffLayer: number,
  { after, limit }: { readonly after: number; readonly limit: number },
): Generator<number> {
  const { words } = arena
  const last = words[diffLayer + MASK]!
  for (let i = 0; i <= last; i++) {
    let entry = Atomics.load(words, diffLayer + INDEX + i)
    while (entry !== 0 && words[entry + 1]! > limit) entry = words[entry + 2]!
    if (entry !== 0 && words[entry + 1]! > after) yield entry
  }
}

/** Input of one `putEntry`: the words of key and value are in `key` and `value`. */
export type Draft = {
  kind: number
  tag: number
  valueWords: number
  readonly key: Int32Array
  readonly value: Int32Array
}

/**
 * Adds an entry; its index word is written last. The caller has reserved the pages and a free index
 * word.
 */
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
  const { slot, older } = findSlot(arena, cursor.diffLayer, { kind, key, hash })
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

/** Finds the index word of a key, or the free word that the key would take. */
function findSlot(
  arena: Arena,
  diffLayer: number,
  want: { readonly kind: number; readonly key: Int32Array; readonly hash: number },
): { readonly slot: number; readonly older: number } {
  const { words } = arena
  const mask = words[diffLayer + MASK]!
  for (let i = want.hash & mask; ; i = (i + 1) & mask) {
    const slot = diffLayer + INDEX + i
    const entry = Atomics.load(words, slot)
    if (entry === 0) return { slot, older: 0 }
    if (words[entry] === want.hash && isKey(words, entry, want.kind, want.key))
      return { slot, older: entry }
  }
}

/** Writes bytes from the cursor on and returns their first word. */
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
