/**
 * Flat values that the threads of the process have read, below the tables: a publish changes nothing in it. One for all threads, in shared
 * memory: what one thread has read the others find, and V8 does not count it as memory of each of them (2026-11: with 19 MB in a thread's
 * own typed arrays its collections took longer than the reads had). Full keys compared, newest read wins (ADR 3). Whether a value still
 * holds is the reader's question: it knows stamps and view. Every word is an Atomics one, on both sides: a plain read may be made before
 * the look at the turn that stands above it, or after the one below it, on a processor whose memory is ordered less than that of x64.
 */
import type { BlockId } from '../storage/types.ts'
import { CACHE_ENTRY_BYTES, CACHE_WAYS } from './arena.ts'
import type { Query } from './walk.ts'

const KEY_WORDS = 13
const VALUE_WORDS = 18

// Words of an entry.
/** Even: at rest; odd: some thread is writing it. Raised by each write. */
const TURN = 0
/** 0: empty. */
const KIND = 1
const COUNT = 2
const BLOCK = 3
const HEIGHT = 4
const UNFOLDED = 5
const KEY = 6
const VALUE = KEY + KEY_WORDS
const ENTRY_WORDS = CACHE_ENTRY_BYTES / 4

/** What a thread has found last: a copy, which other threads do not change. */
export type FlatCache = {
  /** Whether the key is there; what follows is about its value. */
  find(query: Query): boolean
  block(): BlockId
  height(): number
  unfolds(): number
  /** Copies the value; returns its words, 0: absent. */
  read(out: Uint32Array, at: number): number
  /** `value`: words, empty when absent. `block`, `height`: the fold it was read at. */
  store(
    query: Query,
    value: Uint32Array,
    at: { readonly id: BlockId; readonly height: number; readonly unfolds: number },
  ): void
}

/** The cache as seen by this thread. */
export function openCache(memory: SharedArrayBuffer): FlatCache {
  const words = new Int32Array(memory)
  const sets = words.length / ENTRY_WORDS / CACHE_WAYS
  const found = { block: 0, height: 0, unfolds: 0, count: 0, value: new Uint32Array(VALUE_WORDS) }
  let writes = 0
  const setOf = (hash: number) => (hash & (sets - 1)) * CACHE_WAYS * ENTRY_WORDS

  /** Copies first and looks at the turn again then: what was written over meanwhile is not there. */
  function take(entry: number, query: Query): boolean {
    const turn = Atomics.load(words, entry + TURN)
    if ((turn & 1) === 1 || !isOf(words, entry, query)) return false
    const count = Atomics.load(words, entry + COUNT)
    found.block = Atomics.load(words, entry + BLOCK)
    found.height = Atomics.load(words, entry + HEIGHT)
    found.unfolds = Atomics.load(words, entry + UNFOLDED)
    for (let i = 0; i < count && i < VALUE_WORDS; i++)
      found.value[i] = Atomics.load(words, entry + VALUE + i)
    found.count = count
    return Atomics.load(words, entry + TURN) === turn
  }
  /** That of the key, else one after the other. */
  function placeOf(set: number, query: Query): number {
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
    unfolds: () => found.unfolds,
    read(out, at) {
      for (let i = 0; i < found.count; i++) out[at + i] = found.value[i]!
      return found.count
    },
    store(query, value, { id, height, unfolds }) {
      const entry = placeOf(setOf(query.hash), query)
      const turn = Atomics.load(words, entry + TURN)
      // Another thread writes it: that value is as good. One that was ended in the middle leaves the entry unused for good.
      if ((turn & 1) === 1) return
      if (Atomics.compareExchange(words, entry + TURN, turn, turn + 1) !== turn) return
      Atomics.store(words, entry + KIND, query.kind)
      Atomics.store(words, entry + COUNT, value.length)
      Atomics.store(words, entry + BLOCK, id)
      Atomics.store(words, entry + HEIGHT, height)
      Atomics.store(words, entry + UNFOLDED, unfolds)
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
