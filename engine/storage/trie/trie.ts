/**
 * The state trie has one stored version, that of the persisted head, and one in memory for each
 * unpersisted block. A version shares unchanged nodes with its parent's, so that branches and
 * second payloads cost only their changes. A lazy directory has incomplete state and takes roots
 * from its upstream, so `noTrie` replaces its trie.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { SlotChange, StateDiff } from '../../state/diff.ts'
import type { Proof } from '../types.ts'
import { inlineChild, leafValue, rootHash } from './codec.ts'
import {
  accountRoute,
  encodeAccount,
  groupsOf,
  type OpenAccount,
  routeOf,
  slotChange,
  storageRootAt,
} from './diff.ts'
import { childAt, newOwner, type Owner, STORED, TrieError, type TrieNode, unlink } from './node.ts'
import { prefetch } from './prefetch.ts'
import {
  collectWrites,
  nodeKey,
  type ReplacedRows,
  rowName,
  type TrieSpace,
  type TrieWrite,
} from './rows.ts'
import { StoredNodes, type TrieRows } from './stored-nodes.ts'
import {
  allChanges,
  type Change,
  findLeaf,
  provePath,
  sortChanges,
  type Trie,
  updateTrie,
} from './update.ts'

/**
 * The trie after one block, or after its flashblocks so far. A version is void once a version other
 * than itself or its ancestors is persisted.
 */
export type TrieVersion = {
  readonly owner: Owner
  /** Other versions share its nodes, so that it does not change any more. */
  isForked: boolean
  root: TrieNode | undefined
  /** Hash of the root, once computed. */
  hash: Bytes | undefined
  /** Rows of earlier versions whose path has another kind of node now, or none. */
  readonly replaced: ReplacedRows
  /** Nodes of this version that reference others in memory, found by `writes`. */
  readonly linked: TrieNode[]
}

export interface StateTrie {
  /** The stored version. */
  base(): TrieVersion
  /** Makes a version for a block on `parent`, equal to it at first. */
  fork(parent: TrieVersion): TrieVersion
  /**
   * Applies a diff to a version and hashes the changes. The diffs of one block follow each other,
   * and later values win. Only `after` is read.
   * @throws {Error} when another version was forked from this one
   * @throws {TrieError} when a deleted account has slots left, or the stored trie is damaged
   */
  apply(version: TrieVersion, diff: StateDiff): void
  /** Makes a version that is never stored or forked. */
  preview(parent: TrieVersion, diff: StateDiff): TrieVersion
  stateRoot(version: TrieVersion): Bytes
  /** Storage root of an account; EMPTY_ROOT if it is absent or has no storage. */
  storageRoot(version: TrieVersion, address: Bytes): Bytes
  /** Storage root of one account after more changes, which are not stored. */
  storageRootAfter(version: TrieVersion, address: Bytes, slots: readonly SlotChange[]): Bytes
  /** @throws {TrieError} if the stored trie contradicts its hashes */
  prove(version: TrieVersion, address: Bytes, keys: readonly Bytes[]): Proof
  /**
   * Database writes that store this version, whose parent is the stored version; in steps, once for
   * a version.
   */
  writes(version: TrieVersion): Generator<undefined, readonly TrieWrite[]>
  /**
   * Makes a version the stored one, after its writes are in the database. Every version that is not
   * above it is void.
   */
  stored(version: TrieVersion): void
  /**
   * Caches the written nodes for the next blocks, in steps after `stored`, as far as the cache has
   * space.
   */
  cacheWritten(version: TrieVersion, writes: readonly TrieWrite[]): Generator<undefined, void>
  /** Drops everything in memory and reads the stored version again. Every version is void. */
  reload(): void
}

/** Bytes of cached nodes for a writer. */
export const TRIE_CACHE_BYTES = 67_108_864
/** Cache for a single read of a few accounts, and for small chains. */
const SMALL_CACHE_BYTES = 262_144

/**
 * Opens the state trie.
 * @param options `cacheBytes`: bound of the cached nodes
 */
export function openTrie({
  database,
  cacheBytes = SMALL_CACHE_BYTES,
}: {
  readonly database: TrieRows
  readonly cacheBytes?: number
}): StateTrie {
  // The database's own cache serves tries with a small cache.
  return new OpenTrie(
    new StoredNodes(database, { cacheBytes, isOnce: cacheBytes > SMALL_CACHE_BYTES }),
  )
}

class OpenTrie implements StateTrie {
  readonly #nodes: StoredNodes
  #base: TrieVersion

  constructor(nodes: StoredNodes) {
    this.#nodes = nodes
    this.#base = storedVersion(nodes)
  }

  reload(): void {
    this.#base = storedVersion(this.#nodes)
  }

  base(): TrieVersion {
    return this.#base
  }

  fork(parent: TrieVersion): TrieVersion {
    parent.isForked = true
    return scratchOn(parent, this.#nodes)
  }

  preview(parent: TrieVersion, diff: StateDiff): TrieVersion {
    const version = scratchOn(parent, this.#nodes)
    this.apply(version, diff)
    return version
  }

  apply(version: TrieVersion, diff: StateDiff): void {
    if (version.isForked || version.owner.isStored)
      throw new Error('trie: a version that others stand on does not change')
    const accounts = trieIn(this.#nodes, ACCOUNTS, version)
    const { root } = version
    const keys = diff.map(({ address }) => keccak256(address))
    prefetch([accountRoute(ACCOUNTS, root, { diff, keys })], this.#nodes)
    const opened = diff.map(({ slots }, at) =>
      this.#open(accounts, root, { key: keys[at]!, slots }),
    )
    this.#updateStorages(version, opened)
    const changes: Change[] = []
    for (const [at, { address, after }] of diff.entries()) {
      const key = keys[at]!
      const { storage } = opened[at]!
      const root = storageRootAt(opened[at]!)
      if (after !== undefined)
        changes.push({ key, value: encodeAccount(after, root), storage, before: undefined })
      else if (equalBytes(root, EMPTY_ROOT))
        changes.push({ key, value: undefined, storage: undefined, before: undefined })
      else
        throw new TrieError(
          `account 0x${Buffer.from(address).toString('hex')} is deleted but keeps slots`,
        )
    }
    version.root = updateTrie(accounts, version.root, allChanges(sortChanges(changes)))
    version.hash = rootHash(version.root)
  }

  stateRoot(version: TrieVersion): Bytes {
    version.hash ??= rootHash(version.root)
    return version.hash
  }

  storageRoot(version: TrieVersion, address: Bytes): Bytes {
    return this.storageRootAfter(version, address, [])
  }

  storageRootAfter(version: TrieVersion, address: Bytes, slots: readonly SlotChange[]): Bytes {
    const key = keccak256(address)
    const scratch = scratchOn(version, this.#nodes)
    const accounts = trieIn(this.#nodes, ACCOUNTS, scratch)
    const account = this.#open(accounts, version.root, { key, slots })
    this.#updateStorages(scratch, [account])
    return storageRootAt(account)
  }

  prove(version: TrieVersion, address: Bytes, keys: readonly Bytes[]): Proof {
    const scratch = scratchOn(version, this.#nodes)
    const key = keccak256(address)
    const accounts = trieIn(this.#nodes, ACCOUNTS, scratch)
    const leaf = findLeaf(accounts, version.root, key)
    const space: TrieSpace = { column: 'storageTrie', prefix: key }
    // A proof of the account alone reads no node of its storage.
    const storage = keys.length === 0 ? undefined : this.#nodes.storageOf(leaf, space)
    const slots = trieIn(this.#nodes, space, scratch)
    return {
      accountProof: provePath(accounts, version.root, key),
      account: leaf && leafValue(leaf),
      storageProofs: keys.map((slot) => provePath(slots, storage, keccak256(slot))),
    }
  }

  writes({ root, owner, replaced, linked }: TrieVersion) {
    return collectWrites(root, owner, { replaced, linked })
  }

  stored(version: TrieVersion): void {
    version.owner.isStored = true
    version.replaced.clear()
    // Nodes below are in the database. References here would retain them for ever.
    for (const node of version.linked) unlink(node)
    version.linked.length = 0
    if (this.#base.root !== undefined) unlink(this.#base.root)
    this.#base = version
  }

  cacheWritten(version: TrieVersion, writes: readonly TrieWrite[]): Generator<undefined, void> {
    return this.#nodes.cacheWritten(writes, this.stateRoot(version))
  }

  /** The leaf and the storage trie of an account before the changes of its slots. */
  #open(
    accounts: Trie,
    root: TrieNode | undefined,
    { key, slots }: { readonly key: Bytes; readonly slots: readonly SlotChange[] },
  ): OpenAccount {
    const leaf = findLeaf(accounts, root, key)
    const space: TrieSpace = { column: 'storageTrie', prefix: key }
    const changes = sortChanges(slots.map((slot) => slotChange(slot, this.#nodes.slab)))
    return {
      leaf,
      space,
      changes,
      storage: changes.length === 0 ? leaf?.storage : this.#nodes.storageOf(leaf, space),
    }
  }

  /**
   * Updates the storage tries in groups of changes, so that their nodes stay in the processor's
   * caches.
   */
  #updateStorages(
    version: Pick<TrieVersion, 'owner' | 'replaced'>,
    accounts: readonly OpenAccount[],
  ): void {
    for (const group of groupsOf(accounts)) {
      prefetch(
        group.map((part) => routeOf(part, this.#nodes.slab)),
        this.#nodes,
      )
      for (const { account, from, to } of group) {
        const { space, storage, changes } = account
        const trie = trieIn(this.#nodes, space, version)
        account.storage = updateTrie(trie, storage, { changes, from, to })
      }
    }
  }
}

function storedVersion(nodes: StoredNodes): TrieVersion {
  const root = nodes.root(ACCOUNTS)
  return {
    owner: { isStored: true, slab: nodes.slab },
    isForked: true,
    root: root?.node,
    hash: root?.hash ?? EMPTY_ROOT,
    replaced: new Map(),
    linked: [],
  }
}

const scratchOn = (parent: TrieVersion, { slab }: StoredNodes): TrieVersion => ({
  owner: newOwner(slab),
  isForked: false,
  root: parent.root,
  hash: parent.hash,
  replaced: new Map(),
  linked: [],
})

/** One of a version's tries, in the form that an update needs. */
const trieIn = (
  nodes: StoredNodes,
  space: TrieSpace,
  version: Pick<TrieVersion, 'owner' | 'replaced'>,
): Trie => ({
  owner: version.owner,
  child(parent, nibble, nodePath) {
    const known =
      parent.kind === 'branch'
        ? (childAt(parent, nibble) ?? inlineChild(parent, nibble, nodePath.depth))
        : parent.child
    return known ?? nodes.child(parent, nibble, { space, nodePath })
  },
  replaced(previous, nodePath) {
    const row = { column: space.column, key: nodeKey(space, nodePath), raw: previous }
    version.replaced.set(rowName(row.column, row.key), row)
  },
})

const ACCOUNTS: TrieSpace = { column: 'accountTrie', prefix: NO_BYTES }

/** Makes a trie that is used while blocks are persisted, and has nothing to write. */
export function noTrie(): StateTrie {
  const version: TrieVersion = {
    owner: STORED,
    isForked: true,
    root: undefined,
    hash: undefined,
    replaced: new Map(),
    linked: [],
  }
  return {
    base: () => version,
    fork: () => version,
    apply: () => {},
    preview: refuse,
    stateRoot: refuse,
    storageRoot: refuse,
    storageRootAfter: refuse,
    prove: refuse,
    // biome-ignore lint/correctness/useYield: it has nothing to do
    *writes() {
      return []
    },
    stored: () => {},
    *cacheWritten() {},
    reload: () => {},
  }
}

function refuse(): never {
  throw new Error('a lazy directory has no trie: who asks for a root should not have')
}
