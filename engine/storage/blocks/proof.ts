/**
 * Merkle proofs of an account and its slots after a block (EIP-1186). The stored trie is that of
 * the persisted head. Appended diffs are overlaid above it, and replaced nodes are restored in
 * memory below it. Every node is checked against its parent's hash, and the root against the
 * header. So a concurrent persist pass causes an error, and the reader retries.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { StateDiff } from '../../state/diff.ts'
import { fromLatin1 } from '../../state/words.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { TrieError } from '../trie/node.ts'
import { plainRow } from '../trie/patch.ts'
import { rowName } from '../trie/rows.ts'
import { openTrie, type StateTrie, type TrieVersion } from '../trie/trie.ts'
import { type ReplacedNode, replacedNodes, rowBefore } from '../trie/undo.ts'
import type { ProofLimits, StoreReader, TrieAt } from '../types.ts'

/** The proof cannot be made; `message` gives the reason and the oldest possible block. */
export class ProofError extends Error {
  override name = 'ProofError'
}
/** A lazy directory has no trie; `message` says which nodes have proofs. */
export class NoTrieError extends ProofError {
  override name = 'NoTrieError'
}
/** The chain moved during the read; the reader should retry. */
export class ProofRaceError extends Error {
  override name = 'ProofRaceError'
}

type Rows = Pick<Database, 'get' | 'getMany' | 'range' | 'scan'>

/**
 * Opens the trie after a block.
 * @param hash of an appended or persisted block of the canonical chain
 * @throws {ProofError} {ProofRaceError} {DatabaseError}
 */
export function trieAt(
  { database, store }: { readonly database: Rows; readonly store: StoreReader },
  hash: Bytes,
  limits: ProofLimits,
): TrieAt {
  if (store.isLazy())
    throw new NoTrieError(
      'this node fetches state as it is needed and keeps no trie: a node with the whole state has proofs',
    )
  const rlp = store.header(hash)
  if (rlp === undefined) throw new ProofError('block not found')
  const { stateRoot, number } = decodeHeader(rlp)
  const persisted = store.persistedHead()
  const { diffs, undone } =
    Number(number) >= persisted.number
      ? { diffs: diffsDown(store, hash, persisted.hash), undone: [] }
      : { diffs: [], undone: persistedAbove(store, Number(number), limits) }
  const persisting = database.get('meta', META.persistingTrie)
  const blocks = persisting === undefined ? undone : [persisting, ...undone]
  return unraced(() => {
    const trie = openTrie({ database: withoutBlocks(database, blocks, limits) })
    let version = trie.base()
    for (const diff of diffs) version = trie.preview(version, diff)
    if (!equalBytes(trie.stateRoot(version), stateRoot)) throw new ProofRaceError('another root')
    return versionOf(trie, version)
  })
}

const versionOf = (trie: StateTrie, version: TrieVersion): TrieAt => ({
  prove: (address, keys) => unraced(() => trie.prove(version, address, keys)),
  after: (diff) => unraced(() => versionOf(trie, trie.preview(version, diff))),
  get stateRoot() {
    return trie.stateRoot(version)
  },
  storageRoot: (address) => unraced(() => trie.storageRoot(version, address)),
})

function unraced<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof TrieError) throw new ProofRaceError(error.message)
    throw error
  }
}

/** Diffs of the blocks above the persisted head up to `hash`, oldest first. */
function diffsDown(store: StoreReader, hash: Bytes, persisted: Bytes): StateDiff[] {
  const diffs: StateDiff[] = []
  for (let at = hash; !equalBytes(at, persisted); ) {
    const header = store.header(at)
    const diff = store.diff(at)
    if (header === undefined || diff === undefined) throw new ProofRaceError('another branch')
    diffs.push(diff)
    at = decodeHeader(header).parentHash.slice()
  }
  return diffs.reverse()
}

/** Hashes of the persisted blocks above `number`, newest first. */
function persistedAbove(store: StoreReader, number: number, limits: ProofLimits): Bytes[] {
  const top = store.persistedHead().number
  if (top - number > limits.blocks)
    throw new ProofError(
      `proofs are kept for the newest ${limits.blocks} blocks: the oldest is block ${top - limits.blocks}`,
    )
  const hashes: Bytes[] = []
  for (let at = top; at > number; at--) {
    const hash = store.hashOfNumber(at)
    if (hash === undefined) throw new ProofRaceError('another branch')
    hashes.push(hash)
  }
  return hashes
}

/** The trie's rows as they were before these blocks, newest first. */
function withoutBlocks(
  database: Rows,
  blocks: readonly Bytes[],
  limits: ProofLimits,
): Pick<Database, 'get' | 'getMany'> {
  /**
   * Undo entries of each row, newest first. An entry with a full row replaces newer ones, because
   * it needs no later state.
   */
  const rows = new Map<string, ReplacedNode[]>()
  let bytes = 0
  for (const hash of blocks) {
    let count = 0
    for (const node of replacedNodes(database, hash)) {
      count++
      const { column, key, raw, patch } = node
      const name = rowName(column, key)
      const newer = patch === undefined ? undefined : rows.get(name)
      if (newer === undefined) rows.set(name, [node])
      else newer.push(node)
      bytes += key.length + (raw?.length ?? patch?.length ?? 0)
      if (bytes > limits.bytes)
        throw new ProofError(
          `more than ${limits.bytes} bytes of nodes were replaced since that block`,
        )
    }
    // A block that changed nothing has an undo row too.
    if (count === 0 && !hasUndo(database, hash))
      throw new ProofError(
        `what block ${Buffer.from(hash).toString('hex')} replaced is not kept any more`,
      )
  }
  const get: Database['get'] = (column, key) => {
    if (column !== 'accountTrie' && column !== 'storageTrie') return database.get(column, key)
    const replaced = rows.get(rowName(column, key))
    if (replaced === undefined) return database.get(column, key)
    const stored = replaced[0]!.patch && database.get(column, key)
    const now = stored && plainRow(stored, (length) => new Uint8Array(length)).row
    return replaced.reduce<Bytes | undefined>((row, node) => rowBefore(node, row), now)
  }
  return { get, getMany: (column, keys) => keys.map((key) => get(column, key)) }
}

function hasUndo(database: Rows, hash: Bytes): boolean {
  const next = fromLatin1(`${Buffer.from(hash).toString('latin1')}\xff`)
  return database.range('undo', { gte: hash, lt: next, limit: 1 }).length > 0
}
