/** A trie of many slots written node by node from sorted hashes: memory for the hashes alone, nothing hashed twice. */
import type { Bytes } from '../engine/primitives/bytes.ts'
import { EMPTY_HASH, keccak256 } from '../engine/primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../engine/primitives/rlp.ts'
import { nibbleAt } from '../engine/primitives/trie-root.ts'
import type { Database } from '../engine/storage/database.ts'
import { hashNode } from '../engine/storage/trie-codec.ts'
import {
  newBranch,
  newExtension,
  newLeaf,
  type Place,
  type TrieNode,
} from '../engine/storage/trie-node.ts'
import { nodeKey, type TrieSpace } from '../engine/storage/trie-rows.ts'

/** The account whose slots they are. */
export const ADDRESS: Bytes = new Uint8Array(20).fill(0xa1)
export const ACCOUNT = { nonce: 1n, balance: 0n, codeHash: EMPTY_HASH }

export function slotOf(index: number): Bytes {
  const slot = new Uint8Array(32)
  new DataView(slot.buffer).setUint32(28, index)
  return slot
}
export function wordOf(index: number, version: number): Bytes {
  const value = new Uint8Array(32).fill(0x5a)
  const view = new DataView(value.buffer)
  view.setUint32(0, 2 ** 31 + index)
  view.setUint32(28, version)
  return value
}

const INDEX_BITS = 24
/** Bits of the hash beside the index in a sorted word. */
const PREFIX_NIBBLES = 10
const ROWS_IN_BATCH = 4_096
const owner = { isStored: false }

/** Writes our rows by path and, into the account column, the same nodes by hash; returns the root. At most 2²⁴ leaves. */
export function buildTrie(database: Database, leaves: number): Bytes {
  const words = sortedHashes(leaves)
  const prefix = keccak256(ADDRESS)
  const space: TrieSpace = { column: 'storageTrie', prefix }
  const batch = database.batch()
  const indexAt = (at: number) => words[2 * at]! & (2 ** INDEX_BITS - 1)
  const keyAt = (at: number) => keccak256(slotOf(indexAt(at)))
  const nibble = (at: number, depth: number): number => {
    if (depth < 8) return (words[2 * at + 1]! >>> (28 - 4 * depth)) & 15
    if (depth < PREFIX_NIBBLES) return (words[2 * at]! >>> (28 - 4 * (depth - 8))) & 15
    return nibbleAt(keyAt(at), depth)
  }
  const write = (node: TrieNode, place: Place) => {
    if (hashNode(node).length < 32) throw new Error('a node with 32-byte values is never short')
    batch.put('storageTrie', nodeKey(space, place), node.raw)
    batch.put('accountTrie', node.reference!, node.raw)
    if (batch.length >= ROWS_IN_BATCH) batch.commit()
    // It is written: only its hash is needed above.
    if (node.kind === 'branch') node.children.fill(undefined)
    return node
  }
  const build = (from: number, to: number, depth: number): TrieNode => {
    const place = { key: keyAt(from), depth }
    if (to - from === 1) {
      const value = encodeRlp(wordOf(indexAt(from), 0))
      const entry = { key: place.key, value, storage: undefined }
      return write(newLeaf(owner, entry, { start: depth, seen: 0 }), place)
    }
    let end = depth
    while (nibble(from, end) === nibble(to - 1, end)) end++
    const branch = newBranch(owner, 0)
    for (let at = from; at < to; ) {
      const own = nibble(at, end)
      let next = at + 1
      while (next < to && nibble(next, end) === own) next++
      branch.present |= 1 << own
      branch.children[own] = build(at, next, end + 1)
      at = next
    }
    write(branch, { key: place.key, depth: end })
    if (end === depth) return branch
    const path = Uint8Array.from({ length: end - depth }, (_, at) =>
      nibbleAt(place.key, depth + at),
    )
    return write(
      newExtension(owner, path, { child: branch, raw: new Uint8Array(0), seen: 0 }),
      place,
    )
  }
  const root = hashNode(build(0, leaves, 0))
  const { nonce, balance, codeHash } = ACCOUNT
  const value = encodeRlp([rlpUint(nonce), rlpUint(balance), root, codeHash])
  const account = newLeaf(owner, { key: prefix, value, storage: undefined }, { start: 0, seen: 0 })
  hashNode(account)
  const top = { key: prefix, depth: 0 }
  batch.put(
    'accountTrie',
    nodeKey({ column: 'accountTrie', prefix: new Uint8Array(0) }, top),
    account.raw,
  )
  batch.commit()
  return root
}

/** Two words each: the first 40 bits of the hash, then the index. */
function sortedHashes(leaves: number): Uint32Array {
  if (leaves > 2 ** INDEX_BITS) throw new RangeError(`${leaves} leaves, at most ${2 ** INDEX_BITS}`)
  const sorted = new BigUint64Array(leaves)
  const words = new Uint32Array(sorted.buffer)
  for (let index = 0; index < leaves; index++) {
    const hash = keccak256(slotOf(index))
    words[2 * index] = ((hash[4]! << INDEX_BITS) | index) >>> 0
    words[2 * index + 1] = ((hash[0]! << 24) | (hash[1]! << 16) | (hash[2]! << 8) | hash[3]!) >>> 0
  }
  sorted.sort()
  // Where 40 bits do not tell two apart, all of them do.
  for (let at = 1; at < leaves; at++) {
    if (sorted[at]! >> BigInt(INDEX_BITS) !== sorted[at - 1]! >> BigInt(INDEX_BITS)) continue
    const hashes = [at - 1, at].map((of) =>
      keccak256(slotOf(words[2 * of]! & (2 ** INDEX_BITS - 1))),
    )
    if (Buffer.compare(hashes[0]!, hashes[1]!) > 0)
      [sorted[at - 1], sorted[at]] = [sorted[at]!, sorted[at - 1]!]
  }
  return words
}
