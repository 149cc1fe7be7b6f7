/**
 * The state trie: one stored version, that of the fold head, and in memory one version per unfolded block. A version shares what it
 * did not change with its parent's, so branches and second payloads cost what they change.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import type { SlotChange, StateDiff } from '../state/diff.ts'
import type { Database } from './database.ts'
import { newSlab } from './slab.ts'
import { epochsFor, MOST_EPOCHS, newNeeds, trim } from './trie-cache.ts'
import {
  childHash,
  copyForNode,
  decodeNode,
  encodeLeaf,
  hasRow,
  leafValue,
  rootHash,
} from './trie-codec.ts'
import {
  accountRoute,
  encodeAccount,
  groupsOf,
  type OpenAccount,
  routeOf,
  slotChange,
  storageRootAt,
} from './trie-diff.ts'
import {
  type Branch,
  type Extension,
  keepChild,
  keepChildren,
  type Leaf,
  newLeaf,
  type Owner,
  type Place,
  STORED,
  storageRootOf,
  TrieError,
  type TrieNode,
} from './trie-node.ts'
import { type Absent, keyOf, prefetch } from './trie-prefetch.ts'
import {
  collectWrites,
  KEYS_BYTES,
  nodeKey,
  type ReplacedRows,
  rowName,
  type TrieColumn,
  type TrieSpace,
  type TrieWrite,
} from './trie-rows.ts'
import {
  type Change,
  findLeaf,
  provePath,
  sortChanges,
  type Trie,
  updateTrie,
  wholeOf,
} from './trie-update.ts'

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
  /** Those that it made and `writes` found. */
  readonly branches: Branch[]
}

/** RLP nodes from the root down, for an account and some of its slots (EIP-1186). */
export type Proof = {
  readonly accountProof: readonly Bytes[]
  /** RLP of the leaf; undefined: no such account. */
  readonly account: Bytes | undefined
  readonly storageProofs: readonly (readonly Bytes[])[]
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
  stored(version: TrieVersion, writes: readonly TrieWrite[]): void
  /** After `stored`: drops stored nodes until no more stay in memory than may, in steps; others may use the trie in between. */
  trim(): Generator<undefined, void>
  /** Forgets everything in memory and reads the stored version again. Every version is void. */
  reload(): void
}

type TrieRows = Pick<Database, 'get' | 'getMany'>

/** `cacheNodes`: stored nodes kept in memory, half a kilobyte to one each. */
export function openTrie(options: {
  readonly database: TrieRows
  readonly cacheNodes?: number
}): StateTrie {
  const { database, cacheNodes = 131_072 } = options
  const memory = { epoch: 1, nodes: 0, keepEpochs: 64 }
  let base: TrieVersion

  const decode = (
    raw: Bytes | undefined,
    {
      column,
      depth,
      expected,
    }: { readonly column: TrieColumn; readonly depth: number; readonly expected: Bytes },
  ): TrieNode => {
    if (raw === undefined || !equalBytes(keccak256(raw), expected))
      throw new TrieError(
        `${column}: the node at depth ${depth} is ${raw === undefined ? 'absent' : 'another'}: the database is damaged`,
      )
    memory.nodes++
    // Of its own a row of the database is three objects for the collector to move.
    return decodeNode(copyForNode(raw), depth, memory.epoch)
  }
  const read = (space: TrieSpace, place: Place, expected: Bytes): TrieNode => {
    const { column } = space
    const raw = database.get(column, nodeKey(space, place))
    return decode(raw, { column, depth: place.depth, expected })
  }
  const load = (absent: readonly Absent[]): readonly TrieNode[] =>
    readMany(database, absent).map((raw, at) => {
      const { route, parent, nibble, depth } = absent[at]!
      const expected = childHash(parent, nibble)
      const node = decode(raw, { column: route.space.column, depth, expected })
      keepChild(parent, nibble, node)
      return node
    })
  /** A leaf that a diff names with its value before is hashed to see whether it is the one that stands there: cheaper than a read. */
  const recall = (absent: Absent, value: Bytes): boolean => {
    const { parent, nibble, depth: start } = absent
    const raw = encodeLeaf(keyOf(absent), start, value)
    if (!equalBytes(keccak256(raw), childHash(parent, nibble))) return false
    const leaf = newLeaf(STORED, raw, { start, seen: memory.epoch, storage: undefined })
    keepChild(parent, nibble, leaf)
    memory.nodes++
    return true
  }
  const trieIn = (space: TrieSpace, version: Pick<TrieVersion, 'owner' | 'replaced'>): Trie => ({
    owner: version.owner,
    seen: memory.epoch,
    child(parent: Branch | Extension, nibble: number, place: Place): TrieNode {
      const known = parent.kind === 'branch' ? parent.children[nibble] : parent.child
      if (known !== undefined) return known
      const child = read(space, place, childHash(parent, nibble))
      keepChild(parent, nibble, child)
      return child
    },
    replaced(previous, place) {
      const row = { column: space.column, key: nodeKey(space, place), raw: previous }
      version.replaced.set(rowName(row.column, row.key), row)
    },
  })
  const storageOf = (leaf: Leaf | undefined, space: TrieSpace): TrieNode | undefined => {
    if (leaf === undefined) return undefined
    const expected = storageRootOf(leafValue(leaf))
    if (leaf.storage === undefined && !equalBytes(expected, EMPTY_ROOT))
      leaf.storage = read(space, { key: space.prefix, depth: 0 }, expected)
    return leaf.storage
  }
  /** The leaf and the storage of an account before the changes of its slots. */
  const open = (
    accounts: Trie,
    root: TrieNode | undefined,
    { key, slots }: { readonly key: Bytes; readonly slots: readonly SlotChange[] },
  ): OpenAccount => {
    const leaf = findLeaf(accounts, root, key)
    const space: TrieSpace = { column: 'storageTrie', prefix: key }
    const changes = sortChanges(slots.map(slotChange))
    return {
      leaf,
      space,
      changes,
      storage: changes.length === 0 ? leaf?.storage : storageOf(leaf, space),
    }
  }
  /** Brings the storages of these accounts forward, some hundred changes at a time: their nodes are still in the processor's caches. */
  const updateStorages = (
    version: Pick<TrieVersion, 'owner' | 'replaced'>,
    accounts: readonly OpenAccount[],
  ): void => {
    for (const group of groupsOf(accounts)) {
      prefetch(group.map(routeOf), { load, recall })
      for (const { account, from, to } of group) {
        const { space, storage, changes } = account
        account.storage = updateTrie(trieIn(space, version), storage, { changes, from, to })
      }
    }
  }

  const reload = () => {
    const place = { key: new Uint8Array(32), depth: 0 }
    const raw = database.get('accountTrie', nodeKey(ACCOUNTS, place))
    const root = raw === undefined ? undefined : read(ACCOUNTS, place, keccak256(raw))
    memory.nodes = root === undefined ? 0 : 1
    base = {
      owner: { isStored: true },
      isForked: true,
      root,
      hash: undefined,
      replaced: new Map(),
      branches: [],
    }
  }
  reload()

  const isWorthKeeping = (child: TrieNode): boolean => {
    if (child.kind !== 'leaf' || child.storage !== undefined || !hasRow(child)) return true
    memory.nodes--
    return false
  }

  function* keepNodes(epochs: number): Generator<undefined, Uint32Array> {
    const before = memory.nodes
    const { epoch } = memory
    const needs = newNeeds()
    const kept = base.root === undefined ? 0 : yield* trim(base.root, { epoch, epochs, needs })
    // Others have read some meanwhile; the next look counts those anew.
    memory.nodes = kept + memory.nodes - before
    return needs
  }

  const trie: StateTrie = {
    base: () => base,
    fork(parent) {
      parent.isForked = true
      return scratchOn(parent)
    },
    preview(parent, diff) {
      const version = scratchOn(parent)
      trie.apply(version, diff)
      return version
    },
    apply(version, diff) {
      if (version.isForked || version.owner.isStored)
        throw new Error('trie: a version that others stand on does not change')
      const accounts = trieIn(ACCOUNTS, version)
      const { root } = version
      const keys = diff.map(({ address }) => keccak256(address))
      prefetch([accountRoute(ACCOUNTS, root, { diff, keys })], { load, recall })
      const opened = diff.map(({ slots }, at) => open(accounts, root, { key: keys[at]!, slots }))
      updateStorages(version, opened)
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
    },
    stateRoot(version) {
      version.hash ??= rootHash(version.root)
      return version.hash
    },
    storageRoot: (version, address) => trie.storageRootAfter(version, address, []),
    storageRootAfter(version, address, slots) {
      const key = keccak256(address)
      const scratch = scratchOn(version)
      const account = open(trieIn(ACCOUNTS, scratch), version.root, { key, slots })
      updateStorages(scratch, [account])
      return storageRootAt(account)
    },
    prove(version, address, keys) {
      const scratch = scratchOn(version)
      const key = keccak256(address)
      const accounts = trieIn(ACCOUNTS, scratch)
      const leaf = findLeaf(accounts, version.root, key)
      const space: TrieSpace = { column: 'storageTrie', prefix: key }
      // Who asks for the account alone reads no node of its storage.
      const storage = keys.length === 0 ? undefined : storageOf(leaf, space)
      const slots = trieIn(space, scratch)
      return {
        accountProof: provePath(accounts, version.root, key),
        account: leaf && leafValue(leaf),
        storageProofs: keys.map((slot) => provePath(slots, storage, keccak256(slot))),
      }
    },
    writes: ({ root, owner, replaced, branches }) =>
      collectWrites(root, owner, { replaced, branches }),
    stored(version, writes) {
      version.owner.isStored = true
      memory.epoch++
      // The others take the place of nodes that were in memory.
      for (const { previous } of writes) if (previous === undefined) memory.nodes++
      version.replaced.clear()
      // The next change of a leaf says what it was, mostly, and in memory there is room for more branches.
      for (const branch of version.branches) keepChildren(branch, isWorthKeeping)
      version.branches.length = 0
      base = version
    },
    *trim() {
      if (memory.nodes <= cacheNodes) return
      const needs = yield* keepNodes(memory.keepEpochs)
      if (memory.nodes < 0.5 * cacheNodes)
        memory.keepEpochs = Math.min(MOST_EPOCHS, memory.keepEpochs + 4)
      if (memory.nodes <= 0.75 * cacheNodes) return
      // Room for some blocks, so that not each of them is followed by a walk.
      memory.keepEpochs = epochsFor(needs, 0.75 * cacheNodes)
      yield* keepNodes(memory.keepEpochs)
    },
    reload,
  }
  return trie
}

const scratchOn = (parent: TrieVersion): TrieVersion => ({
  owner: { isStored: false },
  isForked: false,
  root: parent.root,
  hash: parent.hash,
  replaced: new Map(),
  branches: [],
})

const ACCOUNTS: TrieSpace = { column: 'accountTrie', prefix: new Uint8Array(0) }

/** Bytes of a node's key at the most. */
const MAX_KEY = 65
/** Nodes of one read. */
const MAX_READ = 1_024

/** Rows in the order of their places. */
function readMany(database: TrieRows, absent: readonly Absent[]): readonly (Bytes | undefined)[] {
  const rows: (Bytes | undefined)[] = []
  const slab = newSlab(Math.min(KEYS_BYTES, absent.length * MAX_KEY))
  const columnAt = (at: number) => absent[at]!.route.space.column
  for (let from = 0; from < absent.length; ) {
    const column = columnAt(from)
    let to = from + 1
    while (to < absent.length && to - from < MAX_READ && columnAt(to) === column) to++
    const keys = absent
      .slice(from, to)
      .map((one) => nodeKey(one.route.space, { key: keyOf(one), depth: one.depth }, slab))
    rows.push(...database.getMany(column, keys))
    from = to
  }
  return rows
}
