/**
 * Flat values that a thread has read, below the tables: a publish changes nothing in it. A slot per hash, full keys compared, newest
 * read wins (ADR 3). Whether a value still holds is the reader's question: it knows stamps and view.
 */
import type { BlockId } from '../storage/types.ts'
import type { Query } from './walk.ts'

const KEY_WORDS = 13
const VALUE_WORDS = 18
const META_WORDS = 5
export const DEFAULT_CACHE_ENTRIES = 2 ** 15

export type FlatCache = {
  /** Slot of the key, −1 when it is not there. */
  find(query: Query): number
  blockOf(slot: number): BlockId
  heightOf(slot: number): number
  unfoldsOf(slot: number): number
  /** Copies the value; returns its words, 0: absent. */
  read(slot: number, out: Uint32Array, at: number): number
  /** `value`: words, empty when absent. `block`, `height`: the fold it was read at. */
  store(
    query: Query,
    value: Uint32Array,
    at: { readonly id: BlockId; readonly height: number; readonly unfolds: number },
  ): void
}

/** `entries` is a power of two; each takes 144 bytes. */
export function createCache(entries = DEFAULT_CACHE_ENTRIES): FlatCache {
  if (entries < 1 || (entries & (entries - 1)) !== 0)
    throw new RangeError(`cache of ${entries} entries, expected a power of two`)
  const keys = new Int32Array(entries * KEY_WORDS)
  const values = new Uint32Array(entries * VALUE_WORDS)
  /** kind (0: empty), words of the value, block id, height, unfolds. */
  const meta = new Int32Array(entries * META_WORDS)
  const slotOf = (hash: number) => hash & (entries - 1)
  return {
    find(query) {
      const slot = slotOf(query.hash)
      if (meta[slot * META_WORDS] !== query.kind) return -1
      const at = slot * KEY_WORDS
      for (let i = (query.kind >> 8) - 1; i >= 0; i--) if (keys[at + i] !== query.key[i]) return -1
      return slot
    },
    blockOf: (slot) => meta[slot * META_WORDS + 2]!,
    heightOf: (slot) => meta[slot * META_WORDS + 3]!,
    unfoldsOf: (slot) => meta[slot * META_WORDS + 4]!,
    read(slot, out, at) {
      const count = meta[slot * META_WORDS + 1]!
      for (let i = 0; i < count; i++) out[at + i] = values[slot * VALUE_WORDS + i]!
      return count
    },
    store(query, value, { id, height, unfolds }) {
      const slot = slotOf(query.hash)
      const at = slot * META_WORDS
      for (let i = 0; i < query.kind >> 8; i++) keys[slot * KEY_WORDS + i] = query.key[i]!
      values.set(value, slot * VALUE_WORDS)
      meta[at] = query.kind
      meta[at + 1] = value.length
      meta[at + 2] = id
      meta[at + 3] = height
      meta[at + 4] = unfolds
    },
  }
}
