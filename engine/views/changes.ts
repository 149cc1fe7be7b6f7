/**
 * Finds the changes between two heads of one chain from the diff layers alone. A recording reader
 * records the reads of a state, by the hashes that diff layers use for keys.
 */
import type { StateReader } from '../state/reader.ts'
import type { ReadSet } from '../state/reads.ts'
import { type Arena, hashKey } from './arena.ts'
import type { ChainSnapshot, Position } from './chain-snapshot.ts'
import {
  ACCOUNT,
  blockIdOf,
  FINAL,
  hashAt,
  isOfKind,
  keyAt,
  newestEntries,
  parentHeightOf,
  parentOf,
  SLOT,
  valueAt,
  valueWordsOf,
} from './diff-layer.ts'
import { createQuery, findInChain, type Query } from './walk.ts'

/**
 * Maximum number of entries (0.5 µs each) and diff layers (10 µs each) per search: some 5 ms in all
 * (November 2026).
 */
const MAX_ENTRIES = 8_192
const MAX_DIFF_LAYERS = 32

/**
 * Reports the hash of each account and slot whose value may differ between two heads. Some reported
 * values are equal.
 * @param heads `to` is a head of the snapshot; `from` is the older head
 * @returns false when the heads are on different chains or the search hits its maximum; the report
 * is then incomplete
 */
export function forEachChange(
  arena: Arena,
  heads: { readonly from: Position; readonly to: Position; readonly base: ChainSnapshot['base'] },
  onChange: (hash: number) => void,
): boolean {
  const { from, to, base } = heads
  const path = pathTo(arena, from, to, base)
  if (path === undefined) return false
  // The diff layers of a persisted block may be gone, so values cannot be compared.
  const old = from.height > base.height ? { query: createQuery(), from, base } : undefined
  let left = MAX_ENTRIES
  for (const { diffLayer, after, limit } of path)
    for (const entry of newestEntries(arena, diffLayer, { after, limit })) {
      if (!isOfKind(arena, entry, ACCOUNT) && !isOfKind(arena, entry, SLOT)) continue
      if (left-- === 0) return false
      if (old === undefined || !isAsBefore(arena, entry, old)) onChange(hashAt(arena, entry))
    }
  return true
}

/** A diff layer with the tags that count: above `after`, up to `limit`. */
type Part = { readonly diffLayer: number; readonly after: number; readonly limit: number }

/**
 * Returns the diff layers with the changes after `from`, newest first; undefined when `from` is not
 * below `to` or too far down.
 */
function pathTo(
  arena: Arena,
  from: Position,
  to: Position,
  base: ChainSnapshot['base'],
): readonly Part[] | undefined {
  const path: Part[] = []
  let { diffLayer, height, tag: limit } = to
  while (height > base.height) {
    const isOld = blockIdOf(arena, diffLayer) === from.id
    const after = isOld ? from.tag : -1
    if (after < limit && path.push({ diffLayer, after, limit }) > MAX_DIFF_LAYERS) return undefined
    const below = parentHeightOf(arena, diffLayer)
    if (below !== height) {
      if (isOld) return from.tag <= limit ? path : undefined
      limit = FINAL
    }
    height = below
    diffLayer = parentOf(arena, diffLayer)
  }
  // The base is always a complete block.
  return base.id === from.id && from.tag === FINAL ? path : undefined
}

function isAsBefore(
  arena: Arena,
  entry: number,
  { query, from, base }: { query: Query; readonly from: Position; base: ChainSnapshot['base'] },
): boolean {
  const { words } = arena
  query.kind = isOfKind(arena, entry, ACCOUNT) ? ACCOUNT : SLOT
  query.hash = hashAt(arena, entry)
  const key = keyAt(entry)
  for (let i = 0; i < query.kind >> 8; i++) query.key[i] = words[key + i]!
  const before = findInChain(arena, query, from, base.height)
  const count = valueWordsOf(arena, entry)
  if (before === 0 || valueWordsOf(arena, before) !== count) return false
  const [a, b] = [valueAt(arena, before), valueAt(arena, entry)]
  for (let i = 0; i < count; i++) if (words[a + i] !== words[b + i]) return false
  return true
}

/**
 * Wraps a state so that its reads are recorded.
 * Code and block hashes need no record: the account names its code, and a chain that only grows has
 * no other hashes. Listing an account's storage has no key and makes the read set incomplete.
 */
export function recordingReader(seed: number, reader: StateReader, reads: ReadSet): StateReader {
  const key = new Int32Array(SLOT >> 8)
  return {
    account(address, out, at) {
      key.set(address)
      reads.key(hashKey(seed, key, ACCOUNT >> 8))
      return reader.account(address, out, at)
    },
    slot(address, slot, out, at) {
      key.set(address)
      key.set(slot, ACCOUNT >> 8)
      reads.key(hashKey(seed, key, SLOT >> 8))
      return reader.slot(address, slot, out, at)
    },
    code: (hash) => reader.code(hash),
    blockHash: (number) => reader.blockHash(number),
    hasSlots(address) {
      reads.lose()
      return reader.hasSlots(address)
    },
    slots(address) {
      reads.lose()
      return reader.slots(address)
    },
  }
}
