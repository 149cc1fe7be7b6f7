/**
 * Walks a stored trie and checks each node's hash: all of the trie, or the way to one node. Nothing
 * stays in memory.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_ROOT } from '../../primitives/keccak.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { Database } from '../database/types.ts'
import { childHash, decodeNode, hashOfRow, inlineChild, leafKey, leafValue } from './codec.ts'
import { type Branch, childAt, type Extension, setNibble, type TrieNode } from './node.ts'
import { plainRow } from './patch.ts'
import { nodeKey, type TrieSpace } from './rows.ts'

export type TrieWalk = {
  readonly rows: Pick<Database, 'getMany'>
  readonly space: TrieSpace
  /** Root hash in the header, or in the account's leaf. */
  readonly root: Bytes
  /** Called for a row that does not match its parent's hash. Nodes below are skipped. */
  readonly onDamage: (row: DamagedRow) => void
}
export type DamagedRow = { readonly key: Bytes; readonly message: string }
/** `key`: the hashed key, 32 bytes. */
export type WalkedLeaf = { readonly key: Bytes; readonly value: Bytes }

type Walked = { readonly node: TrieNode; readonly way: Bytes; readonly depth: number }
type Named = { readonly way: Bytes; readonly depth: number; readonly hash: Bytes }

/** Every leaf, in no particular order; returns the number of rows read. */
export function* walkLeaves(walk: TrieWalk): Generator<WalkedLeaf, number> {
  if (equalBytes(walk.root, EMPTY_ROOT)) return 0
  const open = read(walk, [{ way: new Uint8Array(32), depth: 0, hash: walk.root }])
  let rows = open.length
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const { node, way } = at
    if (node.kind === 'leaf') {
      yield { key: leafKey(node, way), value: leafValue(node) }
      continue
    }
    const { inline, named } = childrenOf(walk, at)
    const found = read(walk, named)
    rows += found.length
    open.push(...inline, ...found)
  }
  return rows
}

/**
 * The row of the node at a path, with its inline nodes; undefined if the trie has no row there.
 * Damage on the way is reported, and the result is undefined too.
 */
export function rowAt(
  walk: TrieWalk,
  nodePath: { readonly key: Bytes; readonly depth: number },
): Bytes | undefined {
  if (equalBytes(walk.root, EMPTY_ROOT)) return undefined
  let at: Walked | undefined
  let isRow = true
  const top = { way: new Uint8Array(32), depth: 0, hash: walk.root }
  for (at = read(walk, [top])[0]; at !== undefined && at.depth < nodePath.depth; ) {
    const { inline, named } = childrenOf(walk, at, nibbleAt(nodePath.key, at.depth))
    isRow = inline.length === 0
    at = inline[0] ?? read(walk, named)[0]
    if (at !== undefined && !isOnWay(at, nodePath)) return undefined
  }
  if (at?.depth !== nodePath.depth || !isRow) return undefined
  checkInline(walk, at)
  return at.node.raw
}

/** Checks the inline nodes of a row, whose hashes no other row has. */
function checkInline(walk: TrieWalk, at: Walked): void {
  const open = [at]
  for (let one = open.pop(); one !== undefined; one = open.pop())
    open.push(...childrenOf(walk, one).inline)
}

/**
 * The value of a leaf; undefined if there is none, or the way to it is damaged, which is reported.
 */
export function leafAt(walk: TrieWalk, key: Bytes): Bytes | undefined {
  if (equalBytes(walk.root, EMPTY_ROOT)) return undefined
  const top = { way: new Uint8Array(32), depth: 0, hash: walk.root }
  for (let at = read(walk, [top])[0]; at !== undefined; ) {
    const { node, way } = at
    if (node.kind === 'leaf')
      return equalBytes(leafKey(node, way), key) ? leafValue(node) : undefined
    const { inline, named } = childrenOf(walk, at, nibbleAt(key, at.depth))
    at = inline[0] ?? read(walk, named)[0]
  }
  return undefined
}

function isOnWay(
  { way, depth }: Walked,
  nodePath: { readonly key: Bytes; readonly depth: number },
) {
  const shared = Math.min(depth, nodePath.depth)
  for (let at = 0; at < shared; at++)
    if (nibbleAt(way, at) !== nibbleAt(nodePath.key, at)) return false
  return true
}

/**
 * Children of a node.
 * @param only the child below this nibble of a branch; an extension has one child
 */
function childrenOf(
  walk: TrieWalk,
  { node, way, depth }: Walked,
  only?: number,
): { readonly inline: Walked[]; readonly named: Named[] } {
  const inline: Walked[] = []
  const named: Named[] = []
  if (node.kind === 'leaf') return { inline, named }
  const addChild = (below: Bytes, at: number, nibble: number) => {
    try {
      const child = loadedChild(node, nibble, at)
      if (child !== undefined) inline.push({ node: child, way: below, depth: at })
      else named.push({ way: below, depth: at, hash: childHash(node, nibble) })
    } catch (error) {
      walk.onDamage({ key: nodeKey(walk.space, { key: way, depth }), message: messageOf(error) })
    }
  }
  if (node.kind === 'extension') {
    const below = way.slice()
    for (const [at, nibble] of node.path.entries()) setNibble(below, depth + at, nibble)
    addChild(below, depth + node.path.length, 0)
    return { inline, named }
  }
  for (let nibble = 0; nibble < 16; nibble++) {
    if ((node.present & (1 << nibble)) === 0 || (only ?? nibble) !== nibble) continue
    const below = way.slice()
    setNibble(below, depth, nibble)
    addChild(below, depth + 1, nibble)
  }
  return { inline, named }
}

/**
 * Child that is short, or inline in the row of its parent.
 * @throws {TrieError}
 */
const loadedChild = (
  node: Branch | Extension,
  nibble: number,
  depth: number,
): TrieNode | undefined =>
  node.kind === 'extension'
    ? node.child
    : (childAt(node, nibble) ?? inlineChild(node, nibble, depth))

function read({ rows, space, onDamage }: TrieWalk, named: readonly Named[]): Walked[] {
  const keys = named.map(({ way, depth }) => nodeKey(space, { key: way, depth }))
  const found = keys.length === 0 ? [] : rows.getMany(space.column, keys, { isOnce: true })
  return named.flatMap(({ way, depth, hash }, at) => {
    const stored = found[at]
    try {
      if (stored === undefined) throw new Error('is missing')
      const { row } = plainRow(stored, (length) => new Uint8Array(length))
      if (!equalBytes(hashOfRow(row), hash)) throw new Error('is not what its hash says')
      return [{ node: decodeNode(row, depth), way, depth }]
    } catch (error) {
      onDamage({ key: keys[at]!, message: messageOf(error) })
      return []
    }
  })
}

const messageOf = (error: unknown): string => (error as Error).message
