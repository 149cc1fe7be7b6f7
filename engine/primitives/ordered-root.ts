/**
 * Root of the trie index → item, as in headers for transactions and receipts; for complete or
 * growing lists.
 */
import type { Bytes } from './bytes.ts'
import { EMPTY_ROOT, keccak256 } from './keccak.ts'
import { encodeRlp, type RlpItem, rlpUint } from './rlp.ts'
import { type EntryRange, nodeOf, type TrieEntry } from './trie-root.ts'

/**
 * Returns the root, 32 bytes.
 * @param items encoded transactions or receipts (EIP-2718) in the order of the block
 */
export function orderedRoot(items: readonly Bytes[]): Bytes {
  const trie = orderedTrie()
  for (const item of items) trie.append(item)
  return trie.root()
}

/** A trie that grows at its end and computes its root on demand. */
export type OrderedTrie = {
  append(item: Bytes): void
  truncate(length: number): void
  /** Returns 32 bytes. Only new items and the paths to them are hashed. */
  root(): Bytes
}

export function orderedTrie(): OrderedTrie {
  const entries: TrieEntry[] = []
  /*
   * Complete subtrees of at least 16 items, which no further item changes. The key is first index
   * and depth.
   */
  const complete = new Map<string, { readonly end: number; readonly reference: RlpItem }>()

  const known = (range: EntryRange, depth: number): RlpItem | undefined => {
    const first = range.entries[range.from]!
    const { length } = first.key
    const isUniform = range.entries[range.to - 1]!.key.length === length
    const size = range.to - range.from
    if (!isUniform || size < 16 || size !== 16 ** (length * 2 - depth)) return undefined
    const key = `${indexOf(range.from, entries.length)}:${depth}`
    const found = complete.get(key)
    if (found !== undefined) return found.reference
    const reference = keccak256(encodeRlp(nodeOf(range, depth)))
    complete.set(key, { end: indexOf(range.to - 1, entries.length) + 1, reference })
    return reference
  }
  return {
    append(item) {
      entries.push({ key: encodeRlp(rlpUint(entries.length)), value: item })
    },
    truncate(length) {
      entries.length = Math.min(entries.length, length)
      for (const [key, { end }] of complete) if (end > length) complete.delete(key)
    },
    root() {
      if (entries.length === 0) return EMPTY_ROOT
      const sorted = inKeyOrder(entries)
      return keccak256(encodeRlp(nodeOf({ entries: sorted, from: 0, to: sorted.length, known }, 0)))
    },
  }
}

/** Key 0x80 of index 0 comes after the keys 0x01 to 0x7f and before all longer keys. */
const ONE_BYTE_KEYS = 128

function inKeyOrder(entries: readonly TrieEntry[]): readonly TrieEntry[] {
  const [first, ...others] = entries
  return others.toSpliced(Math.min(others.length, ONE_BYTE_KEYS - 1), 0, first!)
}

/** Returns the index of the item at a position in key order. */
function indexOf(position: number, length: number): number {
  const ofFirst = Math.min(length, ONE_BYTE_KEYS) - 1
  if (position === ofFirst) return 0
  return position < ofFirst ? position + 1 : position
}
