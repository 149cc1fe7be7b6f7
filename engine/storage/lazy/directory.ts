/**
 * A lazy directory has the chain from some block on, and only the state that was fetched or written
 * since. A follower calls `startLazyState` before any other thread runs, first in an empty
 * directory. It calls `startLazyState` again when it cannot continue from its head. Then the
 * upstream's state does not reach back far enough, or a reorg was too deep. In a running node the
 * persistence thread does this work in steps, and informs the readers in between.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import {
  decodeHead,
  decodeLazyStart,
  decodeNumber,
  encodeBody,
  encodeHead,
  encodeLazyStart,
  encodeNumber,
  numberThen,
  tailKey,
} from '../blocks/block-codec.ts'
import { persistBlock, putIndexes, putPostings } from '../blocks/persist.ts'
import { pruneUndo } from '../blocks/prune.ts'
import { recover } from '../blocks/recover.ts'
import { isStateImportCut } from '../blocks/state-import.ts'
import { openStore } from '../blocks/store.ts'
import { encodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { forgetOutcomes } from '../ledger/rows.ts'
import type { LazyStart, ResyncStart, StartBlock, StoredHead } from '../types.ts'
import { type ChainLink, type CheckedStart, checkStart, LazyStartError } from './start.ts'

/**
 * Status of a directory. `empty`: nothing is stored. `cut`: a restart was interrupted and has to be
 * repeated. `begun`: a follower continues from its head if the upstream's state reaches back far
 * enough. `whole`: it has full state.
 */
export type LazyDirectory =
  | { readonly status: 'empty' }
  | { readonly status: 'whole' }
  | { readonly status: 'cut' }
  | { readonly status: 'begun'; readonly start: LazyStart; readonly durableHead: StoredHead }

/**
 * Reads the status of a directory.
 * @throws {DatabaseError}
 */
export function lazyDirectory(database: Database): LazyDirectory {
  const head = database.get('meta', META.durableHead)
  if (head === undefined) return { status: 'empty' }
  const start = database.get('meta', META.lazy)
  if (start === undefined) return { status: 'whole' }
  if (database.get('meta', META.resync) !== undefined) return { status: 'cut' }
  return { status: 'begun', start: decodeLazyStart(start), durableHead: decodeHead(head) }
}

/**
 * Mode of the last fetches of a lazy directory, for a start without an upstream.
 * @returns undefined if an older version has filled the directory
 */
export function storedLazyMode(database: Database): 'proven' | 'trusted' | undefined {
  const row = database.get('meta', META.lazyMode)
  const text = row && new TextDecoder().decode(row)
  return text === 'proven' || text === 'trusted' ? text : undefined
}

export function storeLazyMode(database: Database, mode: 'proven' | 'trusted'): void {
  if (storedLazyMode(database) === mode) return
  const batch = database.batch()
  batch.put('meta', META.lazyMode, new TextEncoder().encode(mode))
  batch.commit()
}

/**
 * Starts a lazy state after the newest of `start.blocks`, which becomes the durable and the
 * persisted head. The start is on the disk when the function returns. A kill leaves the directory
 * empty, unchanged, or `cut`. In a directory that was started before, all state is dropped, and all
 * blocks above `keptUpTo`.
 * @throws {LazyStartError} for a start that is no chain, rules that are too old, a directory with
 * full state
 * @throws {DatabaseError} {StoredChainError}
 */
export function startLazyState(
  database: Database,
  chain: Pick<ChainSpec, 'name' | 'genesisNumber' | 'rulesAt'>,
  start: ResyncStart,
): StoredHead {
  const checked = checkResync(database, Number(chain.genesisNumber), start)
  checkRules(chain, checked)
  for (const _ of putStart(database, checked));
  const { number, hash } = checked.head
  return { number, hash }
}

export type CheckedResync = CheckedStart & Pick<ResyncStart, 'keptUpTo'>

/**
 * Checks a resync before anything is changed.
 * @throws {LazyStartError} {DatabaseError}
 */
export function checkResync(
  database: Database,
  genesisNumber: number,
  start: ResyncStart,
): CheckedResync {
  const checked = { ...checkStart(start, genesisNumber), keptUpTo: start.keptUpTo }
  const found = lazyDirectory(database)
  if (found.status === 'whole')
    throw new LazyStartError('the directory holds a whole state: give --datadir another one')
  if (isStateImportCut(database))
    throw new LazyStartError(
      'an account dump was being loaded into this directory when it was cut off: give --datadir another one',
    )
  if (found.status !== 'empty') checkRetained(database, checked)
  return checked
}

/**
 * Writes a checked start in short pieces, because the blocks of weeks may have to be dropped.
 * @throws {DatabaseError} {StoredChainError}
 */
export function* putStart(database: Database, checked: CheckedResync): Generator<undefined, void> {
  const { status } = lazyDirectory(database)
  if (status === 'begun') yield* persistAll(database)
  if (status !== 'empty') yield* forget(database, retainedOf(checked))
  const links = checked.chain.slice(-checked.blocks.length)
  yield* putContents(database, links, checked.blocks)
  const batch = database.batch()
  for (const { number, hash, rlp } of checked.chain) {
    batch.put('headers', hash, rlp)
    batch.put('numbers', encodeNumber(number), hash)
  }
  for (const block of links) putIndexes({ database, block }, batch)
  putHeads(batch, checked)
  batch.commit({ isSynced: true })
}

/** Before Cancun a contract with storage can be destroyed, which needs a list of all its slots. */
function checkRules(
  { name, rulesAt }: Pick<ChainSpec, 'name' | 'rulesAt'>,
  { head }: CheckedStart,
): void {
  if (rulesAt(head.header.number, head.header.timestamp).keepsDestroyed) return
  throw new LazyStartError(
    `block ${head.number} of ${name} is before Cancun, where contracts can be destroyed: it cannot be followed with a lazy state`,
  )
}

/** Persists the waiting blocks, so that they are indexed. Their state is dropped with the rest. */
function* persistAll(database: Database): Generator<undefined, void> {
  const { trie, opened } = recover(database, undefined)
  for (const block of opened.unpersisted) {
    const diff = openStore(database).encodedDiff(block.hash)!
    yield* persistBlock({ database, trie, version: trie.base(), block, diff })
  }
}

/**
 * Drops state and blocks. The directory is `cut` from the first commit to the last of the start,
 * and a repetition is harmless.
 */
function* forget(database: Database, keptUpTo: number): Generator<undefined, void> {
  const mark = database.batch()
  mark.put('meta', META.resync, NO_BYTES)
  forgetOutcomes(database, mark, keptUpTo)
  mark.commit({ isSynced: true })
  yield* dropBlocks(database, keptUpTo + 1)
  // Blocks of abandoned branches are dropped with their undo rows.
  yield* pruneUndo(database, Number.MAX_SAFE_INTEGER - 1, true)
  for (const column of STATE_COLUMNS) {
    database.clear(column)
    yield
  }
}

const STATE_COLUMNS = [
  'accounts',
  'slots',
  'accountHistory',
  'slotHistory',
  'diffs',
  'heights',
  'undo',
  'momentary',
] as const

const retainedOf = ({ keptUpTo, head }: CheckedResync): number =>
  Math.min(keptUpTo ?? -1, head.number - 1)

/** @throws {LazyStartError} if a retained block is not the block of the start at its height */
function checkRetained(database: Database, checked: CheckedResync): void {
  const retained = retainedOf(checked)
  const unpersisted = unpersistedHashes(database)
  for (const { number, hash } of checked.chain) {
    const ours = unpersisted.get(number) ?? database.get('numbers', encodeNumber(number))
    if (number <= retained && ours !== undefined && !equalBytes(ours, hash))
      throw new LazyStartError(
        `block ${number} is to be kept, but the upstream has another one at its height`,
      )
  }
}

/**
 * Hashes of the blocks that wait for their persist pass, by height. Only their chain of headers
 * names them.
 * @throws {DatabaseError}
 */
export function unpersistedHashes(database: Database): ReadonlyMap<number, Bytes> {
  const store = openStore(database)
  const hashes = new Map<number, Bytes>()
  const persisted = store.persistedHead()
  for (let { number, hash } = store.durableHead(); number > persisted.number; number--) {
    hashes.set(number, hash)
    const header = store.header(hash)
    if (header === undefined) break
    hash = decodeHeader(header).parentHash
  }
  return hashes
}

/** Drops persisted blocks from a height on, newest first. */
function* dropBlocks(database: Database, from: number): Generator<undefined, void> {
  const store = openStore(database)
  for (;;) {
    const range = { gte: encodeNumber(from), lt: NO_NUMBER, reverse: true, limit: DROPPED_AT_ONCE }
    const rows = database.range('numbers', range)
    if (rows.length === 0) return
    const batch = database.batch()
    for (const { key, value: hash } of rows) {
      for (const transaction of store.body(hash)?.transactions ?? []) {
        const location = store.transactionLocation(transaction.hash)
        if (location?.blockNumber === decodeNumber(key))
          batch.delete('transactions', transaction.hash)
      }
      for (const column of ['headers', 'bodies', 'receipts'] as const) batch.delete(column, hash)
      batch.delete('bodies', tailKey(hash))
      batch.delete('numbers', key)
    }
    batch.commit()
    yield
  }
}
const DROPPED_AT_ONCE = 64
const NO_NUMBER: Bytes = new Uint8Array(8).fill(0xff)

/** Writes bodies, receipts and postings. No reader finds them before their heights have hashes. */
function* putContents(
  database: Database,
  links: readonly ChainLink[],
  blocks: readonly StartBlock[],
): Generator<undefined, void> {
  const batch = database.batch()
  for (const [at, { transactions, receipts, tail }] of blocks.entries()) {
    const { hash } = links[at]!
    batch.put('bodies', hash, encodeBody(transactions))
    if (tail !== undefined) batch.put('bodies', tailKey(hash), tail)
    batch.put('receipts', hash, encodeList(receipts))
  }
  batch.commit()
  for (const block of links) yield* putPostings({ database, block }, batch)
}

function putHeads(batch: WriteBatch, { head, blocks, safe, finalized }: CheckedStart): void {
  const row = encodeHead(head)
  batch.put('meta', META.durableHead, row)
  batch.put('meta', META.persistedHead, row)
  batch.put('meta', META.oldest, encodeNumber(head.number))
  batch.put('meta', META.labelledHeads, numberThen(safe, encodeNumber(finalized)))
  const oldestBlock = head.number - blocks.length + 1
  batch.put('meta', META.lazy, encodeLazyStart({ block: head, oldestBlock }))
  batch.delete('meta', META.pruned)
  batch.delete('meta', META.fetched)
  batch.delete('meta', META.resync)
}
