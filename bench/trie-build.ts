/**
 * Builds a trie of many slots node by node from sorted hashes. It needs memory for the hashes only,
 * and hashes nothing twice.
 */
import { type Bytes, NO_BYTES } from '../engine/primitives/bytes.ts'
import { EMPTY_HASH, keccak256 } from '../engine/primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../engine/primitives/rlp.ts'
import { nibbleAt } from '../engine/primitives/trie-root.ts'
import type { Database } from '../engine/storage/database/types.ts'
import { encodeLeaf, encodeNode, rootHash } from '../engine/storage/trie/codec.ts'
import { isSmall } from '../engine/storage/trie/inline.ts'
import {
  isShort,
  type NodePath,
  newBranch,
  newExtension,
  newLeaf,
  newNodeSlab,
  newOwner,
  rlpOf,
  setChild,
  type TrieNode,
  unlink,
} from '../engine/storage/trie/node.ts'
import { nodeKey, type TrieSpace } from '../engine/storage/trie/rows.ts'
import { indexIn, sortedHashes } from './sorted-hashes.ts'

/** The account that owns the slots. */
export const ADDRESS: Bytes = new Uint8Array(20).fill(0xa1)
export const ACCOUNT = { nonce: 1n, balance: 0n, codeHash: EMPTY_HASH }

export function slotOf(index: number): Bytes {
  const slot = new Uint8Array(32)
  new DataView(slot.buffer).setUint32(28, index)
  return slot
}
/** Makes a pseudorandom token amount of 9 bytes, as most slots have. */
export function wordOf(index: number, version: number): Bytes {
  const value = new Uint8Array(32)
  const view = new DataView(value.buffer)
  view.setUint8(23, 1 + (Math.imul(index + 1, 0x9e37_79b1) >>> 25))
  view.setUint32(24, Math.imul(index ^ (version * 0x85eb_ca6b), 0xc2b2_ae35))
  view.setUint32(28, Math.imul(index + version, 0x27d4_eb2f))
  return value
}

/** Encodes the value as the trie stores it. */
export const wordRlp = (index: number, version: number): Bytes =>
  encodeRlp(wordOf(index, version).subarray(23))

/** Nibbles of the hash that a sorted word has beside the index. */
const PREFIX_NIBBLES = 10
const ROWS_IN_BATCH = 4_096

/**
 * Writes flashnode's rows by path, and the same nodes by hash into the account column.
 * @param leaves at most 2²⁴
 * @returns the root
 */
export function buildTrie(database: Database, leaves: number): Bytes {
  const words = sortedHashes(leaves, (index) => keccak256(slotOf(index)))
  const prefix = keccak256(ADDRESS)
  const space: TrieSpace = { column: 'storageTrie', prefix }
  const owner = newOwner(newNodeSlab())
  const batch = database.batch()
  const indexAt = (at: number) => indexIn(words, at)
  const keyAt = (at: number) => keccak256(slotOf(indexAt(at)))
  const nibble = (at: number, depth: number): number => {
    if (depth < 8) return (words[2 * at + 1]! >>> (28 - 4 * depth)) & 15
    if (depth < PREFIX_NIBBLES) return (words[2 * at]! >>> (28 - 4 * (depth - 8))) & 15
    return nibbleAt(keyAt(at), depth)
  }
  const write = (node: TrieNode, nodePath: NodePath) => {
    encodeNode(node)
    if (isShort(node)) throw new Error('a node of 30 bytes of path is never short')
    batch.put('accountTrie', keccak256(rlpOf(node)), rlpOf(node))
    if (batch.length >= ROWS_IN_BATCH) batch.commit()
    // A small node is stored in its parent's row.
    if (isSmall(node) && nodePath.depth > 0) return node
    batch.put('storageTrie', nodeKey(space, nodePath), node.raw)
    // The node is written, so its parents need only its hash.
    unlink(node)
    return node
  }
  const build = (from: number, to: number, depth: number): TrieNode => {
    const nodePath = { key: keyAt(from), depth }
    if (to - from === 1) {
      const value = wordRlp(indexAt(from), 0)
      const raw = encodeLeaf(owner.slab, { key: nodePath.key, value }, depth)
      return write(newLeaf(owner, raw, { start: depth, storage: undefined }), nodePath)
    }
    let end = depth
    while (nibble(from, end) === nibble(to - 1, end)) end++
    const branch = newBranch(owner)
    for (let at = from; at < to; ) {
      const own = nibble(at, end)
      let next = at + 1
      while (next < to && nibble(next, end) === own) next++
      setChild(branch, own, build(at, next, end + 1))
      at = next
    }
    write(branch, { key: nodePath.key, depth: end })
    if (end === depth) return branch
    const path = Uint8Array.from({ length: end - depth }, (_, at) =>
      nibbleAt(nodePath.key, depth + at),
    )
    return write(newExtension(owner, path, { child: branch, raw: NO_BYTES }), nodePath)
  }
  const root = rootHash(build(0, leaves, 0))
  const { nonce, balance, codeHash } = ACCOUNT
  const value = encodeRlp([rlpUint(nonce), rlpUint(balance), root, codeHash])
  const top = { key: prefix, depth: 0 }
  batch.put(
    'accountTrie',
    nodeKey({ column: 'accountTrie', prefix: NO_BYTES }, top),
    encodeLeaf(owner.slab, { key: prefix, value }, 0),
  )
  batch.commit()
  return root
}
