/** Walks a view's chain of diff layers from a head down to the base of its snapshot (ADR 3). */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { type Arena, hashKey } from './arena.ts'
import { HEADER_VALUE } from './build.ts'
import type { Position } from './chain-snapshot.ts'
import {
  BLOCK_HASH,
  blockIdOf,
  FINAL,
  findEntry,
  HEADER,
  parentHeightOf,
  parentOf,
  payloadOf,
  readBlob,
  valueAt,
} from './diff-layer.ts'

/** A key to look up. Each thread reuses one query. */
export type Query = {
  kind: number
  hash: number
  limit: number
  readonly key: Int32Array
  readonly bytes: Bytes
}
export function createQuery(): Query {
  const key = new Int32Array(13)
  return { kind: 0, hash: 0, limit: 0, key, bytes: new Uint8Array(key.buffer) }
}
/** Hashes the words in the key once for all diff layers. */
export function prepare(arena: Arena, query: Query, kind: number): void {
  query.kind = kind
  query.hash = hashKey(arena.seed, query.key, kind >> 8)
}

/**
 * Returns the entry of a prepared query in the chain from `from` down to, but not including, height
 * `base`; 0: none. Tags limit the search in the first block only.
 */
export function findInChain(arena: Arena, query: Query, from: Position, base: number): number {
  let { diffLayer, height } = from
  query.limit = from.tag
  while (height > base) {
    const entry = findEntry(arena, diffLayer, query)
    if (entry !== 0) return entry
    const below = parentHeightOf(arena, diffLayer)
    if (below !== height) query.limit = FINAL
    height = below
    diffLayer = parentOf(arena, diffLayer)
  }
  return 0
}

/** Returns the entry that `findInChain` would find, and its block. */
export function findWithBlock(
  arena: Arena,
  query: Query,
  from: Position,
  base: number,
): { readonly entry: number; readonly block: Position } | undefined {
  for (const block of blocksOf(arena, from, base)) {
    const entry = findInBlock(arena, query, block)
    if (entry !== 0) return { entry, block }
  }
  return undefined
}

export function findInBlock(arena: Arena, query: Query, block: Position): number {
  let { diffLayer, height } = block
  query.limit = block.tag
  while (height === block.height) {
    const entry = findEntry(arena, diffLayer, query)
    if (entry !== 0) return entry
    height = parentHeightOf(arena, diffLayer)
    diffLayer = parentOf(arena, diffLayer)
  }
  return 0
}

/**
 * Yields the blocks of the chain above height `base`, newest first. All but the first are complete.
 */
export function* blocksOf(arena: Arena, from: Position, base: number): Generator<Position> {
  if (from.diffLayer === 0) return
  yield from
  let diffLayer = from.diffLayer
  let height = from.height
  for (;;) {
    const below = parentHeightOf(arena, diffLayer)
    diffLayer = parentOf(arena, diffLayer)
    if (below <= base) return
    if (below !== height) yield completeBlock(arena, diffLayer, below)
    height = below
  }
}

/**
 * Returns the block of height `height` in the chain of `from`; undefined outside of (base, from].
 */
export function blockAt(
  arena: Arena,
  from: Position,
  base: number,
  height: number,
): Position | undefined {
  if (height === from.height) return from.diffLayer === 0 ? undefined : from
  if (height > from.height || height <= base) return undefined
  // The loop follows links only. One lookup then finds the header entry of the block.
  let { diffLayer } = from
  for (let at = from.height; at > height; ) {
    at = parentHeightOf(arena, diffLayer)
    diffLayer = parentOf(arena, diffLayer)
  }
  return completeBlock(arena, diffLayer, height)
}

/** Yields id and height of each complete block above height `base` in the chain of `from`. */
export function* completeBlocks(
  arena: Arena,
  from: Position,
  base: number,
): Generator<readonly [id: number, height: number]> {
  if (from.diffLayer === 0) return
  if (from.tag === FINAL) yield [from.id, from.height]
  let { diffLayer, height } = from
  for (;;) {
    const below = parentHeightOf(arena, diffLayer)
    diffLayer = parentOf(arena, diffLayer)
    if (below <= base) return
    if (below !== height) yield [blockIdOf(arena, diffLayer), below]
    height = below
  }
}

/** Returns the block as of flashblock `tag`; undefined when that prefix was never published. */
export function prefixOf(arena: Arena, block: Position, tag: number): Position | undefined {
  const query = createQuery()
  query.key[0] = tag
  prepare(arena, query, HEADER)
  const header = findInBlock(arena, query, block)
  if (header === 0) return undefined
  const transactions = arena.words[valueAt(arena, header) + HEADER_VALUE.transactions]!
  return { ...block, tag, header, transactions }
}

function completeBlock(arena: Arena, diffLayer: number, height: number): Position {
  const block = {
    id: blockIdOf(arena, diffLayer),
    height,
    diffLayer,
    tag: FINAL,
    header: 0,
    transactions: 0,
  }
  const full = prefixOf(arena, block, FINAL)
  if (full === undefined) throw new Error(`views: block ${height} has a child and no end`)
  return full
}

/** Finds the position of a block hash, partial or final, in the chain above `base`. */
export function findHash(
  arena: Arena,
  hash: Bytes,
  from: Position,
  base: number,
): Position | undefined {
  const query = createQuery()
  query.bytes.set(hash)
  prepare(arena, query, BLOCK_HASH)
  const found = findWithBlock(arena, query, from, base)
  if (found === undefined) return undefined
  return prefixOf(arena, found.block, arena.words[valueAt(arena, found.entry)]!)
}

/**
 * Returns the payload of a block in diff layers, 0x and 16 hex digits; undefined for a full block.
 */
export function payloadAt(arena: Arena, { diffLayer }: Position): string | undefined {
  const payload = payloadOf(arena, diffLayer)
  return payload && bytesToHex(payload)
}

/** Returns the hash of a block in diff layers, 32 bytes. */
export function hashOf(arena: Arena, block: Position): Bytes {
  const at = (valueAt(arena, block.header) + HEADER_VALUE.hash) * 4
  return arena.bytes.slice(at, at + 32)
}

/** Returns the RLP of the header of a block in diff layers. */
export function headerOf(arena: Arena, block: Position): Bytes {
  const at = valueAt(arena, block.header)
  const { words } = arena
  return readBlob(arena, words[at + HEADER_VALUE.start]!, words[at + HEADER_VALUE.length]!)
}

/** Returns the newest flashblock index of a block in diff layers. */
export function indexOf(arena: Arena, block: Position): number {
  return arena.words[valueAt(arena, block.header) + HEADER_VALUE.index]!
}
