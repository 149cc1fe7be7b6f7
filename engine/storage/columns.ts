/** Every column family: what its keys and values are, and how RocksDB should keep it. Numbers in keys are big-endian. */
import { type ColumnOptions, DatabaseError } from './database-options.ts'

/**
 * | column | key → value |
 * |---|---|
 * | accounts | address → 72 bytes |
 * | slots | address ‖ slot → 32 bytes, never zero |
 * | accountHistory | address ‖ block (8) → account before that block, empty: absent |
 * | slotHistory | address ‖ slot ‖ block (8) → slot before that block, empty: zero |
 * | code | hash → code |
 * | headers, bodies, receipts, diffs | block hash → RLP, encodeBody, encodeList, encodeDiff |
 * | heights | block (8) ‖ hash → nothing: every appended block, dropped ones too |
 * | numbers | block (8) → hash, folded blocks |
 * | transactions | hash → block (8) ‖ index (4), folded blocks |
 * | logs | kind (1) ‖ address or topic ‖ shard (8) → offsets (2) of blocks in the shard, appended; log-index.ts |
 * | momentary | hash → encodeMomentary; block (8) ‖ hash → nothing, for pruning |
 * | accountTrie | path → node (RLP) |
 * | storageTrie | keccak of address ‖ path → node (RLP) |
 * | undo | block hash ‖ part (4) → trie nodes before that block |
 * | meta | a name → heads, marks, horizon, what is in progress |
 */
export const COLUMN_NAMES = [
  'accounts',
  'slots',
  'accountHistory',
  'slotHistory',
  'code',
  'headers',
  'bodies',
  'receipts',
  'diffs',
  'heights',
  'numbers',
  'transactions',
  'logs',
  'momentary',
  'accountTrie',
  'storageTrie',
  'undo',
  'meta',
] as const
export type ColumnName = (typeof COLUMN_NAMES)[number]

const MIB = 2 ** 20
const LARGEST_CACHE = 2 ** 32 - 1
const USUAL_CACHE = 256 * MIB

/** Joins what was merged into a key, with nothing in between. */
const APPEND = 'id=stringappend;delimiter='
const MERGED: readonly string[] = ['logs'] satisfies ColumnName[]

/** Said here, not by RocksDB in the middle of a commit. @throws {DatabaseError} in a column that appends nothing */
export function checkMerge(column: ColumnName): void {
  if (!MERGED.includes(column))
    throw new DatabaseError('invalid', `column "${column}" has no merge operator`)
}

/**
 * Options by column. `cacheBytes` is shared out among the block caches, most of it to flat state. Every column has a compaction
 * and a budget: an idle column with the usual memtable holds the log of all the others.
 */
export function columnOptions(
  cacheBytes: number = USUAL_CACHE,
): Readonly<Record<ColumnName, ColumnOptions>> {
  const cache = (share: number) =>
    Math.min(LARGEST_CACHE, Math.max(MIB, Math.floor((cacheBytes * share) / 100)))
  // A small node has small memtables. They hold the log too: RocksDB keeps up to six times what all of them may take, and reads it at
  // every start.
  const memtables = Math.min(1, cacheBytes / USUAL_CACHE)
  const column = (budgetMiB: number, cacheShare: number, more: ColumnOptions = {}) => ({
    compaction: 'level' as const,
    memtableMemoryBudget: Math.max(MIB, Math.floor(budgetMiB * memtables * MIB)),
    cacheSize: cache(cacheShare),
    ...more,
  })
  const point = { optimize: 'point-lookup', filterPolicy: 'bloomfilter:10' } as const
  const large = { blockSize: 16_384 }
  // They do not compress, and a read that misses the cache has a block to decompress.
  const hashes = { compression: false } as const
  return {
    accounts: column(32, 15, { ...point, blockSize: 4096 }),
    slots: column(64, 27, { ...point, blockSize: 4096 }),
    // One column per key length: a seek stays inside its prefix, most keys have no change after the block asked for.
    accountHistory: column(32, 5, { prefixExtractor: 'fixed:20' }),
    slotHistory: column(64, 10, { prefixExtractor: 'fixed:52' }),
    code: column(8, 5, large),
    headers: column(4, 2),
    bodies: column(32, 3, large),
    receipts: column(32, 3, large),
    diffs: column(32, 1, large),
    heights: column(1, 1),
    numbers: column(1, 1),
    transactions: column(16, 4, point),
    // Postings are appended without reading the list; RocksDB joins them when it is read or compacted.
    logs: column(32, 4, { ...point, mergeOperator: APPEND }),
    momentary: column(4, 1),
    accountTrie: column(32, 8, { ...point, ...hashes }),
    storageTrie: column(32, 8, { ...point, ...hashes }),
    undo: column(16, 1, { ...large, ...hashes }),
    meta: column(1, 1),
  }
}
