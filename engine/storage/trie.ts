/**
 * The state trie: one stored version, that of the fold head, and in memory one version per unfolded block. A version shares what it
 * did not change with its parent's, so branches and second payloads cost what they change.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { newSlab } from '../primitives/slab.ts'
import { equalBytes } from '../primitives/words.ts'
import type { SlotChange, StateDiff } from '../state/diff.ts'
import type { Database } from './database.ts'
import { createNodeCache, type NodeName, nameOf } from './node-cache.ts'
import {
  childHashAt,
  decodeNode as decodeRow,
  encodeLeaf,
  hashOfRow,
  inlineChild,
  isHashAt,
  leafValue,
  newBytes,
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
  childAt,
  type Extension,
  keepChild,
  type Leaf,
  newLeaf,
  type Owner,
  type Place,
  STORED,
  storageRootOf,
  TrieError,
  type TrieNode,
  unlink,
} from './trie-node.ts'
import { type PlainRow, plainRow } from './trie-patch.ts'
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
  /** Those that it made and that hold others in memory, found by `writes`. */
  readonly linked: TrieNode[]
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
  stored(version: TrieVersion): void
  /** After `stored`, in steps: the nodes that were written stay in memory for the next blocks, as long as there is room. */
  keep(version: TrieVersion, writes: readonly TrieWrite[]): Generator<undefined, void>
  /** Forgets everything in memory and reads the stored version again. Every version is void. */
  reload(): void
}

type TrieRows = Pick<Database, 'get' | 'getMany'>

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
  const cache = createNodeCache(cacheBytes)
  /** The database's own cache is for those who keep little themselves. */
  const options = { isOnce: cacheBytes > SMALL_CACHE_BYTES }
  let base: TrieVersion

  /** @throws {TrieError} */
  const decode = (raw: Bytes | undefined, wanted: Wanted): TrieNode => {
    const { column, depth, source, at } = wanted
    const plain = raw && plainRow(raw, newBytes)
    if (plain === undefined || !isHashAt(source, at, hashOfRow(plain.row)))
      throw new TrieError(
        `${column}: the node at depth ${depth} is ${raw === undefined ? 'absent' : 'another'}: the database is damaged`,
      )
    cache.put(wanted, plain)
    return decodeNode(plain, depth)
  }
  const recent = (wanted: Wanted): TrieNode | undefined => {
    const plain = cache.copy(wanted, newBytes)
    return plain && decodeNode(plain, wanted.depth)
  }
  const read = (space: TrieSpace, place: Place, [source, at]: readonly [Bytes, number]) => {
    const { column, prefix } = space
    const { key, depth } = place
    const wanted = { column, depth, name: nameOf(prefix, key, depth), source, at }
    return recent(wanted) ?? decode(database.get(column, nodeKey(space, place)), wanted)
  }
  const load = (absent: readonly Absent[]): readonly TrieNode[] => {
    const wanted = absent.map(wantedOf)
    const nodes = wanted.map(recent)
    const missing = absent.filter((_, at) => nodes[at] === undefined)
    const rows = readMany(database, missing, options)
    let next = 0
    return absent.map((one, at) => {
      const node = nodes[at] ?? decode(rows[next++], wanted[at]!)
      keepChild(one.parent, one.nibble, node)
      return node
    })
  }
  /** A leaf that a diff names with its value before is hashed to see whether it is the one that stands there: cheaper than a read. */
  const recall = (absent: Absent, value: Bytes): boolean => {
    const { parent, nibble, depth: start } = absent
    const raw = encodeLeaf(keyOf(absent), start, value)
    if (!isHashAt(parent.raw, childHashAt(parent, nibble), keccak256(raw))) return false
    const leaf = newLeaf(STORED, raw, { start, storage: undefined })
    keepChild(parent, nibble, leaf)
    return true
  }
  const trieIn = (space: TrieSpace, version: Pick<TrieVersion, 'owner' | 'replaced'>): Trie => ({
    owner: version.owner,
    child(parent: Branch | Extension, nibble: number, place: Place): TrieNode {
      const known =
        parent.kind === 'branch'
          ? (childAt(parent, nibble) ?? inlineChild(parent, nibble, place.depth))
          : parent.child
      if (known !== undefined) return known
      const child = read(space, place, [parent.raw, childHashAt(parent, nibble)])
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
      leaf.storage = read(space, { key: space.prefix, depth: 0 }, [expected, 0])
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
    cache.clear()
    const place = { key: new Uint8Array(32), depth: 0 }
    const raw = database.get('accountTrie', nodeKey(ACCOUNTS, place))
    const plain = raw && plainRow(raw, newBytes)
    const hash = plain === undefined ? EMPTY_ROOT : hashOfRow(plain.row)
    base = {
      owner: { isStored: true },
      isForked: true,
      root: plain && decodeNode(plain, 0),
      hash,
      replaced: new Map(),
      linked: [],
    }
  }
  reload()

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
    writes: ({ root, owner, replaced, linked }) => collectWrites(root, owner, { replaced, linked }),
    stored(version) {
      version.owner.isStored = true
      version.replaced.clear()
      // What stands below is in the database: held here it would never go.
      for (const node of version.linked) unlink(node)
      version.linked.length = 0
      if (base.root !== undefined) unlink(base.root)
      base = version
    },
    *keep(version, writes) {
      const root = trie.stateRoot(version)
      let rows = 0
      for (const { name, value, patches, hashIn, hashAt } of writes) {
        if (++rows % ROWS_IN_STEP === 0) yield
        if (value !== undefined && hashAt >= 0)
          cache.put({ name, source: hashIn ?? root, at: hashAt }, { row: value, patches })
      }
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
  linked: [],
})

/** The node of a stored row. @throws {TrieError} */
function decodeNode({ row, patches }: PlainRow, depth: number): TrieNode {
  const node = decodeRow(row, depth)
  if (node.kind === 'branch') node.patches = patches
  return node
}

const ACCOUNTS: TrieSpace = { column: 'accountTrie', prefix: new Uint8Array(0) }

/** A node of which the hash is known. */
type Wanted = NodeName & { readonly column: TrieColumn; readonly depth: number }
const wantedOf = (absent: Absent): Wanted => {
  const { route, depth, parent, nibble } = absent
  const { column, prefix } = route.space
  const name = nameOf(prefix, keyOf(absent), depth)
  return { column, depth, name, source: parent.raw, at: childHashAt(parent, nibble) }
}

/** Nodes of one step of `keep`. */
const ROWS_IN_STEP = 1_024
/** Bytes of a node's key at the most. */
const MAX_KEY = 65
/** Nodes of one read. */
const MAX_READ = 1_024

/** Rows in the order of their places. */
function readMany(
  database: TrieRows,
  absent: readonly Absent[],
  options: { readonly isOnce: boolean },
): readonly (Bytes | undefined)[] {
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
    rows.push(...database.getMany(column, keys, options))
    from = to
  }
  return rows
}
