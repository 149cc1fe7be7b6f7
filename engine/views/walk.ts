/** Walking a view's chain of tables: from a head down to the base of its record, block by block (ADR 3). */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { type Arena, hashKey } from './arena.ts'
import { HEADER_VALUE } from './build.ts'
import type { Position } from './record.ts'
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
} from './table.ts'

/** A key being looked for; one per thread, filled anew for each lookup. */
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
/** Hashes what stands in the key, once for all tables. */
export function prepare(arena: Arena, query: Query, kind: number): void {
  query.kind = kind
  query.hash = hashKey(arena.seed, query.key, kind >> 8)
}

/** Entry of a prepared query in the chain from `from` down to, not including, height `base`; 0: none. In the own block tags count. */
export function findInChain(arena: Arena, query: Query, from: Position, base: number): number {
  let { table, height } = from
  query.limit = from.tag
  while (height > base) {
    const entry = findEntry(arena, table, query)
    if (entry !== 0) return entry
    const below = parentHeightOf(arena, table)
    if (below !== height) query.limit = FINAL
    height = below
    table = parentOf(arena, table)
  }
  return 0
}

/** As `findInChain`, and the block that has the entry. */
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

/** Entry of a prepared query in one block's tables. */
export function findInBlock(arena: Arena, query: Query, block: Position): number {
  let { table, height } = block
  query.limit = block.tag
  while (height === block.height) {
    const entry = findEntry(arena, table, query)
    if (entry !== 0) return entry
    height = parentHeightOf(arena, table)
    table = parentOf(arena, table)
  }
  return 0
}

/** The blocks of the chain above height `base`, newest first; all but the first are held to the end. */
export function* blocksOf(arena: Arena, from: Position, base: number): Generator<Position> {
  if (from.table === 0) return
  yield from
  let table = from.table
  let height = from.height
  for (;;) {
    const below = parentHeightOf(arena, table)
    table = parentOf(arena, table)
    if (below <= base) return
    if (below !== height) yield wholeBlock(arena, table, below)
    height = below
  }
}

/** The block of height `height` in the chain of `from`; undefined outside of (base, from]. */
export function blockAt(
  arena: Arena,
  from: Position,
  base: number,
  height: number,
): Position | undefined {
  if (height === from.height) return from.table === 0 ? undefined : from
  if (height > from.height || height <= base) return undefined
  // Links alone: a block's own entry is looked up once, however many stand between.
  let { table } = from
  for (let at = from.height; at > height; ) {
    at = parentHeightOf(arena, table)
    table = parentOf(arena, table)
  }
  return wholeBlock(arena, table, height)
}

/** Id and height of each block above height `base` that the chain of `from` holds to the end. */
export function* heldToEnd(
  arena: Arena,
  from: Position,
  base: number,
): Generator<readonly [id: number, height: number]> {
  if (from.table === 0) return
  if (from.tag === FINAL) yield [from.id, from.height]
  let { table, height } = from
  for (;;) {
    const below = parentHeightOf(arena, table)
    table = parentOf(arena, table)
    if (below <= base) return
    if (below !== height) yield [blockIdOf(arena, table), below]
    height = below
  }
}

/** The block as it was at flashblock `tag`; undefined when it was never published so. */
export function prefixOf(arena: Arena, block: Position, tag: number): Position | undefined {
  const query = createQuery()
  query.key[0] = tag
  prepare(arena, query, HEADER)
  const header = findInBlock(arena, query, block)
  if (header === 0) return undefined
  const transactions = arena.words[valueAt(arena, header) + HEADER_VALUE.transactions]!
  return { ...block, tag, header, transactions }
}

function wholeBlock(arena: Arena, table: number, height: number): Position {
  const block = {
    id: blockIdOf(arena, table),
    height,
    table,
    tag: FINAL,
    header: 0,
    transactions: 0,
  }
  const whole = prefixOf(arena, block, FINAL)
  if (whole === undefined) throw new Error(`views: block ${height} has a child and no end`)
  return whole
}

/** Where in the chain above `base` a block hash, momentary or final, belongs. */
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

/** 0x + 16 hex digits: the payload that a block in tables came with; undefined: it came whole. */
export function payloadAt(arena: Arena, { table }: Position): string | undefined {
  const payload = payloadOf(arena, table)
  return payload && bytesToHex(payload)
}

/** 32 bytes: hash of a block in tables. */
export function hashOf(arena: Arena, block: Position): Bytes {
  const at = (valueAt(arena, block.header) + HEADER_VALUE.hash) * 4
  return arena.bytes.slice(at, at + 32)
}

/** RLP of the header of a block in tables. */
export function headerOf(arena: Arena, block: Position): Bytes {
  const at = valueAt(arena, block.header)
  const { words } = arena
  return readBlob(arena, words[at + HEADER_VALUE.start]!, words[at + HEADER_VALUE.length]!)
}

/** Flashblock index of a block in tables, the last one of a whole block. */
export function indexOf(arena: Arena, block: Position): number {
  return arena.words[valueAt(arena, block.header) + HEADER_VALUE.index]!
}
