/** What an open finds after a crash: an unfold or a fold that was interrupted, and the blocks that wait for their fold. */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import { encodeDiff } from '../../state/diff-codec.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { TrieError } from '../trie/node.ts'
import { noTrie } from '../trie/none.ts'
import { openTrie, type StateTrie, type TrieVersion } from '../trie/trie.ts'
import type { OpenedChain, StoredHead, UnfoldedBlock } from '../types.ts'
import { writeDurableHead } from './append.ts'
import { decodeHead } from './block-codec.ts'
import { foldBlock, isLazyDirectory } from './fold.ts'
import { openStore } from './store.ts'
import { restoreInterruptedTrie, unfoldBlock } from './unfold.ts'

export type Recovered = {
  readonly trie: StateTrie
  readonly opened: OpenedChain
  /** The trie of each unfolded block. */
  readonly versions: readonly TrieVersion[]
}

/**
 * Before any reader: unfolds while the fold head is no ancestor of the durable head, repeats a fold that was begun, checks the
 * roots of what is left (a lazy directory has none). May take as long as a few full blocks.
 * @throws {DatabaseError}, {TrieError}, {UnfoldError}, {StoredChainError}, {CutStartError}
 */
export function recover(database: Database, cacheBytes: number | undefined): Recovered {
  if (database.get('meta', META.beginning) !== undefined)
    throw new CutStartError(
      'the lazy state of this directory was being begun anew when it was cut off: run the same `follow` again',
    )
  const isLazy = isLazyDirectory(database)
  restoreInterruptedTrie(database)
  leaveOtherBranch(database)
  const trie = isLazy
    ? noTrie()
    : openTrie({ database, ...(cacheBytes === undefined ? {} : { cacheBytes }) })
  if (!isLazy) checkBaseRoot(database, trie)
  let blocks = readUnfolded(database)
  if (database.get('meta', META.folding) !== undefined) {
    repeatFold(database, trie, blocks[0]!)
    blocks = blocks.slice(1)
  }
  const versions: TrieVersion[] = []
  const dropped: StoredHead[] = []
  for (const block of blocks) {
    const version = trie.fork(versions.at(-1) ?? trie.base())
    trie.apply(version, block.diff)
    if (!isLazy && !equalBytes(trie.stateRoot(version), stateRootOf(block.header))) {
      dropped.push(...blocks.slice(versions.length).map(({ number, hash }) => ({ number, hash })))
      writeDurableHead(database, { number: block.number - 1, hash: block.parentHash })
      break
    }
    versions.push(version)
  }
  const store = openStore(database)
  const unfolded = blocks.slice(0, versions.length)
  const heads = { foldHead: store.foldHead(), durableHead: store.durableHead() }
  return { trie, versions, opened: { ...heads, unfolded, dropped } }
}

/** A folded block on the chain of `hash`, or undefined: the nearest one. Reads headers from there down. */
export function nearestFolded(database: Database, hash: Bytes): StoredHead | undefined {
  const store = openStore(database)
  for (let at = hash; ; ) {
    const row = store.header(at)
    if (row === undefined) return undefined
    const { number, parentHash } = decodeHeader(row)
    const folded = store.hashOfNumber(Number(number))
    if (folded !== undefined && equalBytes(folded, at)) return { number: Number(number), hash: at }
    at = parentHash
  }
}

export const stateRootOf = (header: Bytes): Bytes => decodeHeader(header).stateRoot

/** Unfolds until the fold head, and a fold in progress, are on the chain of the durable head. */
function leaveOtherBranch(database: Database): void {
  const store = openStore(database)
  const durable = store.durableHead()
  const ancestor = nearestFolded(database, durable.hash)
  if (ancestor === undefined)
    throw new StoredChainError(
      `block ${durable.number} stands on no folded block: the database is damaged`,
    )
  const started = database.get('meta', META.folding)
  if (started !== undefined && !isOnChain(database, decodeHead(started), durable.hash))
    unfoldBlock(database)
  while (store.foldHead().number > ancestor.number) unfoldBlock(database)
}

function isOnChain(database: Database, block: StoredHead, head: Bytes): boolean {
  const store = openStore(database)
  for (let at = head; ; ) {
    if (equalBytes(at, block.hash)) return true
    const row = store.header(at)
    if (row === undefined) return false
    const { number, parentHash } = decodeHeader(row)
    if (Number(number) <= block.number) return false
    at = parentHash
  }
}

function checkBaseRoot(database: Database, trie: StateTrie): void {
  const store = openStore(database)
  const { number, hash } = store.foldHead()
  const header = store.header(hash)
  if (header === undefined) throw new StoredChainError(`block ${number}: its header is not stored`)
  if (!equalBytes(trie.stateRoot(trie.base()), stateRootOf(header)))
    throw new TrieError(`the stored trie is not that of block ${number}: the database is damaged`)
}

function readUnfolded(database: Database): readonly UnfoldedBlock[] {
  const store = openStore(database)
  const foldHead = store.foldHead()
  const blocks: UnfoldedBlock[] = []
  for (let { hash } = store.durableHead(); !equalBytes(hash, foldHead.hash); ) {
    const header = store.header(hash)
    const body = store.body(hash)
    const receipts = store.receipts(hash)
    const diff = store.diff(hash)
    if (header === undefined || body === undefined || receipts === undefined || diff === undefined)
      throw new StoredChainError('an appended block is not whole: the database is damaged')
    const { number, parentHash } = decodeHeader(header)
    const { transactions } = body
    blocks.push({ number: Number(number), hash, parentHash, header, transactions, receipts, diff })
    hash = parentHash
  }
  return blocks.reverse()
}

function repeatFold(database: Database, trie: StateTrie, block: UnfoldedBlock): void {
  const version = trie.fork(trie.base())
  trie.apply(version, block.diff)
  const diff = encodeDiff(block.diff)
  for (const _ of foldBlock({ database, trie, version, block, diff }));
}

/** What a start left half done is for the same start to finish. */
export class CutStartError extends Error {
  override name = 'CutStartError'
}

/** Rows that belong together are not all there. */
export class StoredChainError extends Error {
  override name = 'StoredChainError'
}
