/**
 * Recovery at open: an interrupted unwind or persist pass, and the blocks that wait for their
 * persist pass.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import { encodeDiff } from '../../state/diff-codec.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { TrieError } from '../trie/node.ts'
import { noTrie, openTrie, type StateTrie, type TrieVersion } from '../trie/trie.ts'
import type { OpenedChain, StoredHead, UnpersistedBlock } from '../types.ts'
import { writeDurableHead } from './append.ts'
import { decodeHead } from './block-codec.ts'
import { isLazyDirectory, persistBlock } from './persist.ts'
import { openStore } from './store.ts'
import { restoreInterruptedTrie, unwindBlock } from './unwind.ts'

export type Recovered = {
  readonly trie: StateTrie
  readonly opened: OpenedChain
  /** The trie of each unpersisted block. */
  readonly versions: readonly TrieVersion[]
}

/**
 * Recovers before any reader runs. It unwinds until the persisted head is an ancestor of the
 * durable head, and repeats an interrupted persist pass. It checks the remaining roots, of which a
 * lazy directory has none. It may take as long as a few full blocks.
 * @throws {DatabaseError}, {TrieError}, {UnwindError}, {StoredChainError}, {CutStartError}
 */
export function recover(database: Database, cacheBytes: number | undefined): Recovered {
  if (database.get('meta', META.resync) !== undefined)
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
  let blocks = readUnpersisted(database)
  if (database.get('meta', META.persisting) !== undefined) {
    repeatPersist(database, trie, blocks[0]!)
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
  const unpersisted = blocks.slice(0, versions.length)
  const heads = { persistedHead: store.persistedHead(), durableHead: store.durableHead() }
  return { trie, versions, opened: { ...heads, unpersisted, dropped } }
}

/**
 * Nearest persisted block on the chain of `hash`, or undefined. It reads headers from there down.
 */
export function lastPersistedAncestor(database: Database, hash: Bytes): StoredHead | undefined {
  const store = openStore(database)
  for (let at = hash; ; ) {
    const row = store.header(at)
    if (row === undefined) return undefined
    const { number, parentHash } = decodeHeader(row)
    const persisted = store.hashOfNumber(Number(number))
    if (persisted !== undefined && equalBytes(persisted, at))
      return { number: Number(number), hash: at }
    at = parentHash
  }
}

export const stateRootOf = (header: Bytes): Bytes => decodeHeader(header).stateRoot

/**
 * Unwinds until the persisted head, and a persist pass in progress, are on the chain of the durable
 * head.
 */
function leaveOtherBranch(database: Database): void {
  const store = openStore(database)
  const durable = store.durableHead()
  const ancestor = lastPersistedAncestor(database, durable.hash)
  if (ancestor === undefined)
    throw new StoredChainError(
      `block ${durable.number} stands on no persisted block: the database is damaged`,
    )
  const started = database.get('meta', META.persisting)
  if (started !== undefined && !isOnChain(database, decodeHead(started), durable.hash))
    unwindBlock(database)
  while (store.persistedHead().number > ancestor.number) unwindBlock(database)
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
  const { number, hash } = store.persistedHead()
  const header = store.header(hash)
  if (header === undefined) throw new StoredChainError(`block ${number}: its header is not stored`)
  if (!equalBytes(trie.stateRoot(trie.base()), stateRootOf(header)))
    throw new TrieError(`the stored trie is not that of block ${number}: the database is damaged`)
}

function readUnpersisted(database: Database): readonly UnpersistedBlock[] {
  const store = openStore(database)
  const persistedHead = store.persistedHead()
  const blocks: UnpersistedBlock[] = []
  for (let { hash } = store.durableHead(); !equalBytes(hash, persistedHead.hash); ) {
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

function repeatPersist(database: Database, trie: StateTrie, block: UnpersistedBlock): void {
  const version = trie.fork(trie.base())
  trie.apply(version, block.diff)
  const diff = encodeDiff(block.diff)
  for (const _ of persistBlock({ database, trie, version, block, diff }));
}

/** A start was interrupted, and has to be repeated to finish. */
export class CutStartError extends Error {
  override name = 'CutStartError'
}

/** Some rows of a block are missing. */
export class StoredChainError extends Error {
  override name = 'StoredChainError'
}
