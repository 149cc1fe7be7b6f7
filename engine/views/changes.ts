/** What a head has otherwise than an older one of the same chain, told from the tables alone. */
import type { Arena } from './arena.ts'
import type { Position, ViewRecord } from './record.ts'
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
} from './table.ts'
import { createQuery, findInChain, type Query } from './walk.ts'

/** Entries of accounts and slots that are looked at, 0.5 µs each, and tables, 10 µs each: some 5 ms in all (2026-11). */
const MOST_ENTRIES = 8_192
const MOST_TABLES = 32

/**
 * Tells the hash of each account and slot whose value differs, as keys are hashed in tables, and of some whose value does not.
 * @param to a head of the record
 * @returns false: it is another chain, or more than may be looked at; what was told is not all of it
 */
export function tellChanges(
  arena: Arena,
  heads: { readonly from: Position; readonly to: Position; readonly base: ViewRecord['base'] },
  tell: (hash: number) => void,
): boolean {
  const { from, to, base } = heads
  const path = pathTo(arena, from, to, base)
  if (path === undefined) return false
  // Of what is folded no table may be left.
  const old = from.height > base.height ? { query: createQuery(), from, base } : undefined
  let left = MOST_ENTRIES
  for (const { table, after, limit } of path)
    for (const entry of newestEntries(arena, table, { after, limit })) {
      if (!isOfKind(arena, entry, ACCOUNT) && !isOfKind(arena, entry, SLOT)) continue
      if (left-- === 0) return false
      if (old === undefined || !isAsBefore(arena, entry, old)) tell(hashAt(arena, entry))
    }
  return true
}

/** A table, and the tags of it that count: above `after`, up to `limit`. */
type Part = { readonly table: number; readonly after: number; readonly limit: number }

/** Tables that hold what came after `from`, newest first; undefined: `from` is not below `to`, or too far. */
function pathTo(
  arena: Arena,
  from: Position,
  to: Position,
  base: ViewRecord['base'],
): readonly Part[] | undefined {
  const path: Part[] = []
  let { table, height, tag: limit } = to
  while (height > base.height) {
    const isOld = blockIdOf(arena, table) === from.id
    const after = isOld ? from.tag : -1
    if (after < limit && path.push({ table, after, limit }) > MOST_TABLES) return undefined
    const below = parentHeightOf(arena, table)
    if (below !== height) {
      if (isOld) return from.tag <= limit ? path : undefined
      limit = FINAL
    }
    height = below
    table = parentOf(arena, table)
  }
  // The base is held to its end alone.
  return base.id === from.id && from.tag === FINAL ? path : undefined
}

/** Whether the value is known to be that of the older head. */
function isAsBefore(
  arena: Arena,
  entry: number,
  { query, from, base }: { query: Query; readonly from: Position; base: ViewRecord['base'] },
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
