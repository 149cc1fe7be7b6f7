/**
 * A lazy directory: it has the chain from some block on, and of its state what was fetched or written since. `beginLazy` is what a
 * follower calls before any other thread is there, in an empty directory, and again in its own where it can go on from its head no
 * more: the upstream's state does not reach back so far, or the chain was reorganised deeper than can be undone. While a node runs
 * its keeper does the same in two steps, between which it tells the readers.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
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
import { foldBlock, putIndexes, putPostings } from '../blocks/fold.ts'
import { pruneUndo } from '../blocks/prune.ts'
import { recover } from '../blocks/recover.ts'
import { isStateImportCut } from '../blocks/state-import.ts'
import { openStore } from '../blocks/store.ts'
import { encodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { forgetFates } from '../ledger/rows.ts'
import type { Beginning, LazyStart, StartBlock, StoredHead } from '../types.ts'
import { type ChainLink, type CheckedStart, checkStart, LazyStartError } from './start.ts'

/**
 * What the directory is. `empty`: to be begun; `cut`: it was being begun anew, which has to be done again; `begun`: it goes on from its
 * head, where the upstream's state reaches back that far; `whole`: it has a whole state.
 */
export type LazyDirectory =
  | { readonly status: 'empty' }
  | { readonly status: 'whole' }
  | { readonly status: 'cut' }
  | { readonly status: 'begun'; readonly start: LazyStart; readonly durableHead: StoredHead }

/** @throws {DatabaseError} */
export function lazyDirectory(database: Database): LazyDirectory {
  const head = database.get('meta', META.durableHead)
  if (head === undefined) return { status: 'empty' }
  const start = database.get('meta', META.lazy)
  if (start === undefined) return { status: 'whole' }
  if (database.get('meta', META.beginning) !== undefined) return { status: 'cut' }
  return { status: 'begun', start: decodeLazyStart(start), durableHead: decodeHead(head) }
}

/**
 * How the state of a lazy directory was last fetched, for a start that can ask nobody.
 * @returns undefined where an older version has filled the directory
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
 * Begins a lazy state after the newest of `start.blocks`, which becomes the durable and the folded head. On the disk when it returns;
 * a kill leaves the directory empty, as it was, or `cut`. In a directory that was begun before, all of its state goes, and of its
 * blocks those above `keptUpTo`: the newest block of ours that is the upstream's too; undefined: none is known to be.
 * @throws {LazyStartError} for a start that is no chain, a chain whose rules are too old, a directory that has a whole state
 * @throws {DatabaseError} {StoredChainError}
 */
export function beginLazy(
  database: Database,
  chain: Pick<ChainSpec, 'name' | 'genesisNumber' | 'rulesAt'>,
  start: Beginning,
): StoredHead {
  const checked = checkBeginning(database, Number(chain.genesisNumber), start)
  checkRules(chain, checked)
  for (const _ of putStart(database, checked));
  const { number, hash } = checked.head
  return { number, hash }
}

export type CheckedBeginning = CheckedStart & Pick<Beginning, 'keptUpTo'>

/** All that can be said before anything is changed. @throws {LazyStartError} {DatabaseError} */
export function checkBeginning(
  database: Database,
  genesisNumber: number,
  start: Beginning,
): CheckedBeginning {
  const checked = { ...checkStart(start, genesisNumber), keptUpTo: start.keptUpTo }
  const found = lazyDirectory(database)
  if (found.status === 'whole')
    throw new LazyStartError('the directory holds a whole state: give --datadir another one')
  if (isStateImportCut(database))
    throw new LazyStartError(
      'an account dump was being loaded into this directory when it was cut off: give --datadir another one',
    )
  if (found.status !== 'empty') checkKept(database, checked)
  return checked
}

/** In short pieces: a chain of weeks may have to go. @throws {DatabaseError} {StoredChainError} */
export function* putStart(
  database: Database,
  checked: CheckedBeginning,
): Generator<undefined, void> {
  const { status } = lazyDirectory(database)
  if (status === 'begun') yield* foldAll(database)
  if (status !== 'empty') yield* forget(database, keptOf(checked))
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

/** Before Cancun a contract with storage can go, and storage that is not known would have to be listed. */
function checkRules(
  { name, rulesAt }: Pick<ChainSpec, 'name' | 'rulesAt'>,
  { head }: CheckedStart,
): void {
  if (rulesAt(head.header.number, head.header.timestamp).keepsDestroyed) return
  throw new LazyStartError(
    `block ${head.number} of ${name} is before Cancun, where contracts can be destroyed: it cannot be followed with a lazy state`,
  )
}

/** What waits for its fold is indexed, so that it is found afterwards; its state goes with all the rest. */
function* foldAll(database: Database): Generator<undefined, void> {
  const { trie, opened } = recover(database, undefined)
  for (const block of opened.unfolded) {
    const diff = openStore(database).encodedDiff(block.hash)!
    yield* foldBlock({ database, trie, version: trie.base(), block, diff })
  }
}

/** From its first commit to the last of a start the directory is `cut`. What is done twice does no harm. */
function* forget(database: Database, keptUpTo: number): Generator<undefined, void> {
  const mark = database.batch()
  mark.put('meta', META.beginning, NO_BYTES)
  forgetFates(database, mark, keptUpTo)
  mark.commit({ isSynced: true })
  yield* dropBlocks(database, keptUpTo + 1)
  // Blocks that were left for another branch long ago go with what their undo needs.
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

const keptOf = ({ keptUpTo, head }: CheckedBeginning): number =>
  Math.min(keptUpTo ?? -1, head.number - 1)

/** @throws {LazyStartError} where the start says that one of the kept is another block */
function checkKept(database: Database, checked: CheckedBeginning): void {
  const kept = keptOf(checked)
  const unfolded = unfoldedHashes(database)
  for (const { number, hash } of checked.chain) {
    const ours = unfolded.get(number) ?? database.get('numbers', encodeNumber(number))
    if (number <= kept && ours !== undefined && !equalBytes(ours, hash))
      throw new LazyStartError(
        `block ${number} is to be kept, but the upstream has another one at its height`,
      )
  }
}

/** By height, of the blocks that wait for their fold: only the chain of their headers names them. @throws {DatabaseError} */
export function unfoldedHashes(database: Database): ReadonlyMap<number, Bytes> {
  const store = openStore(database)
  const hashes = new Map<number, Bytes>()
  const fold = store.foldHead()
  for (let { number, hash } = store.durableHead(); number > fold.number; number--) {
    hashes.set(number, hash)
    const header = store.header(hash)
    if (header === undefined) break
    hash = decodeHeader(header).parentHash
  }
  return hashes
}

/** Folded blocks from a height on, newest first. */
function* dropBlocks(database: Database, from: number): Generator<undefined, void> {
  const store = openStore(database)
  for (;;) {
    const range = { gte: encodeNumber(from), lt: NO_NUMBER, reverse: true, limit: DROPPED_AT_ONCE }
    const rows = database.range('numbers', range)
    if (rows.length === 0) return
    const batch = database.batch()
    for (const { key, value: hash } of rows) {
      for (const transaction of store.body(hash)?.transactions ?? []) {
        const place = store.transactionPlace(transaction.hash)
        if (place?.blockNumber === decodeNumber(key)) batch.delete('transactions', transaction.hash)
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

/** By hash, and as candidates: nothing of it is found before the heights are named. */
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
  batch.put('meta', META.foldHead, row)
  batch.put('meta', META.oldest, encodeNumber(head.number))
  batch.put('meta', META.marks, numberThen(safe, encodeNumber(finalized)))
  const oldestBlock = head.number - blocks.length + 1
  batch.put('meta', META.lazy, encodeLazyStart({ block: head, oldestBlock }))
  batch.delete('meta', META.pruned)
  batch.delete('meta', META.fetched)
  batch.delete('meta', META.beginning)
}
