/** Root of a Merkle Patricia trie from a complete list of entries; nothing is stored. */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { EMPTY_ROOT, keccak256 } from './keccak.ts'
import { encodeRlp, type RlpItem } from './rlp.ts'
import { compareBytes } from './words.ts'

export type TrieEntry = { readonly key: Bytes; readonly value: Bytes }

/**
 * Returns the root, 32 bytes.
 * No key may be a prefix of another (hashes and RLP numbers never are), and no key may come twice.
 * @throws {RangeError} when keys break that rule
 */
export function trieRoot(entries: readonly TrieEntry[]): Bytes {
  if (entries.length === 0) return EMPTY_ROOT
  const sorted = entries.toSorted((a, b) => compareBytes(a.key, b.key))
  return keccak256(encodeRlp(nodeOf({ entries: sorted, from: 0, to: sorted.length }, 0)))
}

/**
 * Returns the hex-prefix encoding of the nibbles of `key` from `start` to `end` (yellow paper,
 * appendix C).
 */
export function encodePath(
  key: Bytes,
  span: { readonly start: number; readonly end: number },
  isLeaf: boolean,
): Bytes {
  const length = span.end - span.start
  const path = new Uint8Array((length >> 1) + 1)
  path[0] = isLeaf ? 0x20 : 0
  let at = span.start
  if (length % 2 === 1) path[0]! |= 0x10 | nibbleAt(key, at++)
  for (let to = 1; to < path.length; to++, at += 2)
    path[to] = (nibbleAt(key, at) << 4) | nibbleAt(key, at + 1)
  return path
}

export const nibbleAt = (key: Bytes, at: number) =>
  at % 2 === 0 ? key[at >> 1]! >> 4 : key[at >> 1]! & 15

/**
 * Returns a parent's reference to a node: the hash, or the node itself when shorter than 32 bytes.
 */
function reference(node: RlpItem): RlpItem {
  const encoded = encodeRlp(node)
  return encoded.length < 32 ? node : keccak256(encoded)
}

/** Entries in key order, from `from` up to `to`. */
export type EntryRange = {
  readonly entries: readonly TrieEntry[]
  readonly from: number
  readonly to: number
  /** Returns the reference of a subtree by range and depth; undefined when unknown. */
  readonly known?: (range: EntryRange, depth: number) => RlpItem | undefined
}

/** Returns the node of a non-empty range whose entries share the first `depth` nibbles. */
export function nodeOf(range: EntryRange, depth: number): RlpItem {
  const { entries, from, to } = range
  const first = entries[from]!
  const end = first.key.length * 2
  if (to - from === 1) return [encodePath(first.key, { start: depth, end }, true), first.value]
  const shared = sharedNibbles(first.key, entries[to - 1]!.key, depth)
  if (shared > depth) {
    const child = referenceOf(range, shared)
    return [encodePath(first.key, { start: depth, end: shared }, false), child]
  }
  const children: RlpItem[] = []
  for (let nibble = 0, at = from; nibble < 16; nibble++) {
    const start = at
    while (at < to && nibbleAt(entries[at]!.key, depth) === nibble) at++
    children.push(
      at === start ? NO_BYTES : referenceOf({ ...range, from: start, to: at }, depth + 1),
    )
  }
  return [...children, NO_BYTES]
}

const referenceOf = (range: EntryRange, depth: number) =>
  range.known?.(range, depth) ?? reference(nodeOf(range, depth))

function sharedNibbles(a: Bytes, b: Bytes, from: number): number {
  const end = Math.min(a.length, b.length) * 2
  let at = from
  while (at < end && nibbleAt(a, at) === nibbleAt(b, at)) at++
  if (at === end) throw new RangeError('a key of a trie comes twice or begins another key')
  return at
}
