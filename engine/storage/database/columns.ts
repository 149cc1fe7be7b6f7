/** Every column family: what its keys and values are, and how RocksDB should keep it. Numbers in keys are big-endian. */
import { type ColumnOptions, DatabaseError } from './options.ts'

/**
 * | column | key → value |
 * |---|---|
 * | accounts | address → 72 bytes; lazy, empty: absent; fetched, ‖ checksum (8), checked-row.ts |
 * | slots | address ‖ slot → 32 bytes, never zero; lazy, empty: zero; fetched, ‖ checksum (8); lazy, address → nothing: its slots without a row are zero |
 * | accountHistory | address ‖ block (8) → account before that block, empty: absent |
 * | slotHistory | address ‖ slot ‖ block (8) → slot before that block, empty: zero |
 * | code | hash → code; lazy, hash ‖ 0 → address of who has it |
 * | headers, bodies, receipts, diffs | block hash → RLP, encodeBody, encodeList, encodeDiff |
 * | heights | block (8) ‖ hash → nothing: every appended block, dropped ones too |
 * | numbers | block (8) → hash, folded blocks |
 * | transactions | hash → block (8) ‖ index (4), folded blocks |
 * | logs | kind (1) ‖ address or topic ‖ shard (8) → offsets (2) of blocks in the shard, appended; log-index.ts |
 * | momentary | hash → encodeMomentary; block (8) ‖ hash → nothing, for pruning |
 * | accountTrie | path → node (RLP), small ones below it, then patches; trie-inline.ts, trie-patch.ts |
 * | storageTrie | keccak of address ‖ path → the same |
 * | undo | block hash ‖ part (4) → rows of both tries before that block, or patches; trie-undo.ts |
 * | ledger | kind (1) ‖ … → what flashblocks promised, what became of it, and counts of both; ledger/codec.ts |
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
  'ledger',
  'meta',
] as const
export type ColumnName = (typeof COLUMN_NAMES)[number]

const KIB = 2 ** 10
const MIB = 2 ** 20
const LARGEST_CACHE = 2 ** 32 - 1
const USUAL_CACHE = 256 * MIB

/** Joins what was merged into a key, with nothing in between. */
const APPEND = 'id=stringappend;delimiter='
const MERGED: readonly string[] = ['logs', 'accountTrie', 'storageTrie'] satisfies ColumnName[]

/** Said here, not by RocksDB in the middle of a commit. @throws {DatabaseError} in a column that appends nothing */
export function checkMerge(column: ColumnName): void {
  if (!MERGED.includes(column))
    throw new DatabaseError('invalid', `column "${column}" has no merge operator`)
}

/**
 * Size of one memtable. Two that are full are written to a file, and the files of the column are half as large as one. They hold the
 * log meanwhile, so they are no larger in a large node; the columns that are hardly written have small ones (`log-length.ts`).
 */
export const MEMTABLE_BYTES: Readonly<Record<ColumnName, number>> = {
  accounts: 1 * MIB,
  slots: 2 * MIB,
  accountHistory: 1 * MIB,
  slotHistory: 2 * MIB,
  code: 512 * KIB,
  headers: 512 * KIB,
  bodies: 2 * MIB,
  receipts: 2 * MIB,
  diffs: 2 * MIB,
  heights: 256 * KIB,
  numbers: 256 * KIB,
  transactions: 1 * MIB,
  logs: 1 * MIB,
  momentary: 256 * KIB,
  accountTrie: 2 * MIB,
  storageTrie: 4 * MIB,
  undo: 4 * MIB,
  ledger: 1 * MIB,
  meta: 64 * KIB,
}
/** Of the binding: a memtable is this part of the budget. */
const MEMTABLES_IN_BUDGET = 4

/** Options by column. `cacheBytes` is shared out among the block caches, most of it to flat state. */
export function columnOptions(
  cacheBytes: number = USUAL_CACHE,
): Readonly<Record<ColumnName, ColumnOptions>> {
  const cache = (share: number) =>
    Math.min(LARGEST_CACHE, Math.max(MIB, Math.floor((cacheBytes * share) / 100)))
  const column = (name: ColumnName, cacheShare: number, more: ColumnOptions = {}) => ({
    compaction: 'level' as const,
    memtableMemoryBudget: MEMTABLE_BYTES[name] * MEMTABLES_IN_BUDGET,
    cacheSize: cache(cacheShare),
    ...more,
  })
  const point = { optimize: 'point-lookup', filterPolicy: 'bloomfilter:10' } as const
  const large = { blockSize: 16_384 }
  // They do not compress. From the second level on the binding has RocksDB try it all the same (ADR 18).
  const hashes = { compression: false } as const
  return {
    accounts: column('accounts', 15, { ...point, blockSize: 4096 }),
    slots: column('slots', 27, { ...point, blockSize: 4096 }),
    // One column per key length: a seek stays inside its prefix, most keys have no change after the block asked for.
    accountHistory: column('accountHistory', 5, { prefixExtractor: 'fixed:20' }),
    slotHistory: column('slotHistory', 10, { prefixExtractor: 'fixed:52' }),
    code: column('code', 4, large),
    headers: column('headers', 2),
    bodies: column('bodies', 3, large),
    receipts: column('receipts', 3, large),
    diffs: column('diffs', 1, large),
    heights: column('heights', 1),
    numbers: column('numbers', 1),
    transactions: column('transactions', 4, point),
    // Postings are appended without reading the list; RocksDB joins them when it is read or compacted.
    logs: column('logs', 4, { ...point, mergeOperator: APPEND }),
    momentary: column('momentary', 1),
    // What changes in a node is appended; trie-patch.ts.
    accountTrie: column('accountTrie', 8, { ...point, ...hashes, mergeOperator: APPEND }),
    storageTrie: column('storageTrie', 8, { ...point, ...hashes, mergeOperator: APPEND }),
    undo: column('undo', 1, { ...large, ...hashes }),
    ledger: column('ledger', 1),
    meta: column('meta', 1),
  }
}
