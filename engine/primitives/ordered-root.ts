/** Root of the trie index → item, as headers have it for transactions and receipts; whole or growing. */
import type { Bytes } from './bytes.ts'
import { EMPTY_ROOT, keccak256 } from './keccak.ts'
import { encodeRlp, type RlpItem, rlpUint } from './rlp.ts'
import { type EntryRange, nodeOf, type TrieEntry } from './trie-root.ts'

/** 32 bytes. `items`: encoded transactions or receipts (EIP-2718) in the order of the block. */
export function orderedRoot(items: readonly Bytes[]): Bytes {
  const trie = orderedTrie()
  for (const item of items) trie.append(item)
  return trie.root()
}

/** A trie that grows at its end, asked for its root now and then. */
export type OrderedTrie = {
  append(item: Bytes): void
  /** Forgets the items from `length` on. */
  truncate(length: number): void
  /** 32 bytes. Hashes what came since it was last asked, and the paths to it. */
  root(): Bytes
}

export function orderedTrie(): OrderedTrie {
  const entries: TrieEntry[] = []
  // Subtrees that no further item can change, by the index of their first item and their depth: one of 16 items at least each.
  const complete = new Map<string, { readonly end: number; readonly reference: RlpItem }>()

  const known = (range: EntryRange, depth: number): RlpItem | undefined => {
    const first = range.entries[range.from]!
    const { length } = first.key
    const isUniform = range.entries[range.to - 1]!.key.length === length
    const size = range.to - range.from
    if (!isUniform || size < 16 || size !== 16 ** (length * 2 - depth)) return undefined
    const place = `${indexOf(range.from, entries.length)}:${depth}`
    const found = complete.get(place)
    if (found !== undefined) return found.reference
    const reference = keccak256(encodeRlp(nodeOf(range, depth)))
    complete.set(place, { end: indexOf(range.to - 1, entries.length) + 1, reference })
    return reference
  }
  return {
    append(item) {
      entries.push({ key: encodeRlp(rlpUint(entries.length)), value: item })
    },
    truncate(length) {
      entries.length = Math.min(entries.length, length)
      for (const [place, { end }] of complete) if (end > length) complete.delete(place)
    },
    root() {
      if (entries.length === 0) return EMPTY_ROOT
      const sorted = inKeyOrder(entries)
      return keccak256(encodeRlp(nodeOf({ entries: sorted, from: 0, to: sorted.length, known }, 0)))
    },
  }
}

/** Key 0x80, that of index 0, comes after 0x01 to 0x7f, those of 1 to 127, and before all longer ones. */
const ONE_BYTE_KEYS = 128

function inKeyOrder(entries: readonly TrieEntry[]): readonly TrieEntry[] {
  const [first, ...others] = entries
  return others.toSpliced(Math.min(others.length, ONE_BYTE_KEYS - 1), 0, first!)
}

/** Index of the item at a place in key order. */
function indexOf(place: number, length: number): number {
  const ofFirst = Math.min(length, ONE_BYTE_KEYS) - 1
  if (place === ofFirst) return 0
  return place < ofFirst ? place + 1 : place
}
