/**
 * The state trie: one stored version, that of the fold head, and in memory one version per unfolded block. A version shares what it
 * did not change with its parent's, so branches and second payloads cost what they change.
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
import { childAt, newOwner, type Owner, TrieError, type TrieNode, unlink } from './node.ts'
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
  type Change,
  findLeaf,
  provePath,
  sortChanges,
  type Trie,
  updateTrie,
  wholeOf,
} from './update.ts'

/** The trie after one block, or after its flashblocks so far. Valid until a version that does not stand on it is folded. */
export type TrieVersion = {
  readonly owner: Owner
  /** Others share its nodes: it changes no more. */
  isForked: boolean
  root: TrieNode | undefined
  /** Of the root, once someone asked. */
  hash: Bytes | undefined
  /** Rows of earlier versions whose place has another kind of node now, or none. */
  readonly replaced: ReplacedRows
  /** Those that it made and that hold others in memory, found by `writes`. */
  readonly linked: TrieNode[]
}

export interface StateTrie {
  /** The stored version. */
  base(): TrieVersion
  /** A version of its own for a block on `parent`, equal to it so far. */
  fork(parent: TrieVersion): TrieVersion
  /**
   * Brings a version forward and hashes what changed; diffs of one block follow each other, later values win. No version may have
   * been forked from it. Only `after` is looked at.
   * @throws {Error} when a version was forked from it
   * @throws {TrieError} when an account is deleted that keeps slots, or the stored trie is damaged
   */
  apply(version: TrieVersion, diff: StateDiff): void
  /** A version that nobody will store or stand on. */
  preview(parent: TrieVersion, diff: StateDiff): TrieVersion
  stateRoot(version: TrieVersion): Bytes
  /** EMPTY_ROOT for an account that has no storage, or is absent. */
  storageRoot(version: TrieVersion, address: Bytes): Bytes
  /** Storage root of one account after more changes; nothing is kept. */
  storageRootAfter(version: TrieVersion, address: Bytes, slots: readonly SlotChange[]): Bytes
  /** @throws {TrieError} where the stored trie is not what its hashes say */
  prove(version: TrieVersion, address: Bytes, keys: readonly Bytes[]): Proof
  /** What storing this version changes in the database, where its parent is stored now; in steps, once for a version. */
  writes(version: TrieVersion): Generator<undefined, readonly TrieWrite[]>
  /** The writes are in the database. Every version that does not stand on this one is void. */
  stored(version: TrieVersion): void
  /** After `stored`, in steps: the nodes that were written stay in memory for the next blocks, as long as there is room. */
  keep(version: TrieVersion, writes: readonly TrieWrite[]): Generator<undefined, void>
  /** Forgets everything in memory and reads the stored version again. Every version is void. */
  reload(): void
}

/** Bytes of stored nodes in memory, for a writer. */
export const TRIE_CACHE_BYTES = 67_108_864
/** For who asks about a few accounts once, and small chains. */
const SMALL_CACHE_BYTES = 262_144

/** `cacheBytes`: stored nodes kept in memory. */
export function openTrie({
  database,
  cacheBytes = SMALL_CACHE_BYTES,
}: {
  readonly database: TrieRows
  readonly cacheBytes?: number
}): StateTrie {
  // The database's own cache is for those who keep little themselves.
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
    version.root = updateTrie(accounts, version.root, wholeOf(sortChanges(changes)))
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
    // Who asks for the account alone reads no node of its storage.
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
    // What stands below is in the database: held here it would never go.
    for (const node of version.linked) unlink(node)
    version.linked.length = 0
    if (this.#base.root !== undefined) unlink(this.#base.root)
    this.#base = version
  }

  keep(version: TrieVersion, writes: readonly TrieWrite[]): Generator<undefined, void> {
    return this.#nodes.keep(writes, this.stateRoot(version))
  }

  /** The leaf and the storage of an account before the changes of its slots. */
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

  /** Brings the storages of these accounts forward, some hundred changes at a time: their nodes are still in the processor's caches. */
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

/** One of a version's tries, as an update walks it. */
const trieIn = (
  nodes: StoredNodes,
  space: TrieSpace,
  version: Pick<TrieVersion, 'owner' | 'replaced'>,
): Trie => ({
  owner: version.owner,
  child(parent, nibble, place) {
    const known =
      parent.kind === 'branch'
        ? (childAt(parent, nibble) ?? inlineChild(parent, nibble, place.depth))
        : parent.child
    return known ?? nodes.child(parent, nibble, { space, place })
  },
  replaced(previous, place) {
    const row = { column: space.column, key: nodeKey(space, place), raw: previous }
    version.replaced.set(rowName(row.column, row.key), row)
  },
})

const ACCOUNTS: TrieSpace = { column: 'accountTrie', prefix: NO_BYTES }
