/**
 * Column families: their keys and values, and their RocksDB options. Numbers in keys are
 * big-endian.
 */
import { type ColumnOptions, DatabaseError } from './options.ts'

/**
 * | column | key → value |
 * |---|---|
 * | accounts | address → 72 bytes; lazy directories: see below |
 * | slots | address ‖ slot → 32 bytes, never zero; lazy directories: see below |
 * | accountHistory | address ‖ block (8) → account before that block, empty: absent |
 * | slotHistory | address ‖ slot ‖ block (8) → slot before that block, empty: zero |
 * | code | hash → code; lazy: hash ‖ 0 → address of an account that has it |
 * | headers, bodies | block hash → RLP, encodeBody |
 * | receipts, diffs | block hash → encodeList, encodeDiff |
 * | heights | block (8) ‖ hash → nothing: every appended block, dropped ones too |
 * | numbers | block (8) → hash, persisted blocks |
 * | transactions | hash → block (8) ‖ index (4), persisted blocks |
 * | logs | kind (1) ‖ address or topic ‖ shard (8) → offsets (2) of blocks; log-index.ts |
 * | momentary | hash → encodePartialHeader; block (8) ‖ hash → nothing, for pruning |
 * | accountTrie | path → node (RLP), inline nodes, patches; trie/inline.ts, trie/patch.ts |
 * | storageTrie | keccak of address ‖ path → as in accountTrie |
 * | undo | block hash ‖ part (4) → earlier rows of both tries, or patches; trie/undo.ts |
 * | ledger | kind (1) ‖ … → promises of flashblocks, outcomes, counts; ledger/codec.ts |
 * | meta | name → heads, labelled heads, horizon, work in progress |
 *
 * In a lazy directory an empty account row means absent, and an empty slot row means zero. A
 * fetched row ends with a checksum (8 bytes, flat-state.ts). The row address → nothing in slots
 * says that every slot without a row is zero.
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

/** Merge operator that appends to the value of a key, without a delimiter. */
const APPEND = 'id=stringappend;delimiter='
const MERGED: readonly string[] = ['logs', 'accountTrie', 'storageTrie'] satisfies ColumnName[]

/**
 * Refuses a merge before RocksDB would refuse it in the middle of a commit.
 * @throws {DatabaseError} in a column without a merge operator
 */
export function checkMerge(column: ColumnName): void {
  if (!MERGED.includes(column))
    throw new DatabaseError('invalid', `column "${column}" has no merge operator`)
}

/**
 * Size of one memtable by column. Two full memtables are written together, to files half as large
 * as one. The log cannot be cut meanwhile, so a large node has no larger memtables. Columns with
 * few writes have small ones (`log-length.ts`).
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
/** The binding makes a memtable of this fraction of its budget. */
const MEMTABLES_IN_BUDGET = 4

/**
 * Options by column.
 * @param cacheBytes divided among the block caches; most of it goes to flat state
 */
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
  // Hashes do not compress. From the second level on the binding makes RocksDB try anyway (ADR 18).
  const hashes = { compression: false } as const
  return {
    accounts: column('accounts', 15, { ...point, blockSize: 4096 }),
    slots: column('slots', 27, { ...point, blockSize: 4096 }),
    // Each history column has one key length, so that a seek stays inside its prefix. Most keys
    // have no change after the requested block.
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
    // Postings are appended without a read of the list; RocksDB joins them on a read or in a
    // compaction.
    logs: column('logs', 4, { ...point, mergeOperator: APPEND }),
    momentary: column('momentary', 1),
    // Changes of a node are appended as patches (trie/patch.ts).
    accountTrie: column('accountTrie', 8, { ...point, ...hashes, mergeOperator: APPEND }),
    storageTrie: column('storageTrie', 8, { ...point, ...hashes, mergeOperator: APPEND }),
    undo: column('undo', 1, { ...large, ...hashes }),
    ledger: column('ledger', 1),
    meta: column('meta', 1),
  }
}
