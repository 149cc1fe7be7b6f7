/**
 * Cache of flat values that threads have read; it lies below the diff layers, so a publish changes
 * nothing.
 * All threads share one cache. In November 2026, 19 MB of typed arrays in each thread made garbage
 * collection slower than the reads.
 * Full keys are compared and the newest read wins (ADR 3). The reader checks with stamps and view
 * whether a value is still valid.
 * Every access is atomic. A processor with weak memory order could move a plain read across the
 * check of the turn word.
 */
import type { BlockId } from '../storage/types.ts'
import { CACHE_ENTRY_BYTES, CACHE_WAYS } from './arena.ts'
import type { Query } from './walk.ts'

const KEY_WORDS = 13
const VALUE_WORDS = 18

// Word offsets in an entry.
/**
 * An even turn means that the entry is at rest; an odd turn means that a thread writes. Each write
 * raises the turn.
 */
const TURN = 0
/** Kind 0 marks an empty entry. */
const KIND = 1
const COUNT = 2
const BLOCK = 3
const HEIGHT = 4
const UNWINDS = 5
const KEY = 6
const VALUE = KEY + KEY_WORDS
const ENTRY_WORDS = CACHE_ENTRY_BYTES / 4

/**
 * The last value that a thread has found. The value is a copy, so other threads do not change it.
 */
export type FlatCache = {
  /** Returns whether the key is cached. The methods below describe the value that was found. */
  find(query: Query): boolean
  block(): BlockId
  height(): number
  unwinds(): number
  /** Copies the value and returns its number of words; 0 means absent. */
  read(out: Uint32Array, at: number): number
  /**
   * Stores a value: its words, or none for an absent value. `at` names the persist pass of the
   * read.
   */
  store(
    query: Query,
    value: Uint32Array,
    at: { readonly id: BlockId; readonly height: number; readonly unwinds: number },
  ): void
}

export function openCache(memory: SharedArrayBuffer): FlatCache {
  const words = new Int32Array(memory)
  const sets = words.length / ENTRY_WORDS / CACHE_WAYS
  const found = { block: 0, height: 0, unwinds: 0, count: 0, value: new Uint32Array(VALUE_WORDS) }
  let writes = 0
  const setOf = (hash: number) => (hash & (sets - 1)) * CACHE_WAYS * ENTRY_WORDS

  /**
   * Copies the entry and then checks the turn again. An entry that was overwritten meanwhile counts
   * as not found.
   */
  function take(entry: number, query: Query): boolean {
    const turn = Atomics.load(words, entry + TURN)
    if ((turn & 1) === 1 || !isOf(words, entry, query)) return false
    const count = Atomics.load(words, entry + COUNT)
    found.block = Atomics.load(words, entry + BLOCK)
    found.height = Atomics.load(words, entry + HEIGHT)
    found.unwinds = Atomics.load(words, entry + UNWINDS)
    for (let i = 0; i < count && i < VALUE_WORDS; i++)
      found.value[i] = Atomics.load(words, entry + VALUE + i)
    found.count = count
    return Atomics.load(words, entry + TURN) === turn
  }
  /** Returns the entry of the key. Without one, the ways take turns. */
  function entryOf(set: number, query: Query): number {
    for (let way = 0; way < CACHE_WAYS; way++)
      if (isOf(words, set + way * ENTRY_WORDS, query)) return set + way * ENTRY_WORDS
    return set + (writes++ % CACHE_WAYS) * ENTRY_WORDS
  }

  return {
    find(query) {
      const set = setOf(query.hash)
      for (let way = 0; way < CACHE_WAYS; way++)
        if (take(set + way * ENTRY_WORDS, query)) return true
      return false
    },
    block: () => found.block,
    height: () => found.height,
    unwinds: () => found.unwinds,
    read(out, at) {
      for (let i = 0; i < found.count; i++) out[at + i] = found.value[i]!
      return found.count
    },
    store(query, value, { id, height, unwinds }) {
      const entry = entryOf(setOf(query.hash), query)
      const turn = Atomics.load(words, entry + TURN)
      /*
       * A value that another thread writes now is as good. A thread that was ended during a write
       * leaves the entry unusable for good.
       */
      if ((turn & 1) === 1) return
      if (Atomics.compareExchange(words, entry + TURN, turn, turn + 1) !== turn) return
      Atomics.store(words, entry + KIND, query.kind)
      Atomics.store(words, entry + COUNT, value.length)
      Atomics.store(words, entry + BLOCK, id)
      Atomics.store(words, entry + HEIGHT, height)
      Atomics.store(words, entry + UNWINDS, unwinds)
      for (let i = 0; i < query.kind >> 8; i++) Atomics.store(words, entry + KEY + i, query.key[i]!)
      for (let i = 0; i < value.length; i++) Atomics.store(words, entry + VALUE + i, value[i]!)
      Atomics.store(words, entry + TURN, turn + 2)
    },
  }
}

function isOf(words: Int32Array, entry: number, query: Query): boolean {
  if (Atomics.load(words, entry + KIND) !== query.kind) return false
  for (let i = (query.kind >> 8) - 1; i >= 0; i--)
    if (Atomics.load(words, entry + KEY + i) !== query.key[i]) return false
  return true
}
