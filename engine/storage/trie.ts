/**
 * The state trie: one stored version, that of the fold head, and in memory one version per unfolded block. A version shares what it
 * did not change with its parent's, so branches and second payloads cost what they change.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../primitives/rlp.ts'
import { equalBytes } from '../primitives/words.ts'
import type { AccountState, SlotChange, StateDiff } from '../state/diff.ts'
import type { Database } from './database.ts'
import { newSlab } from './slab.ts'
import { trim } from './trie-cache.ts'
import { childHash, decodeNode, hashForNode, hashNode, newBytes, rootHash } from './trie-codec.ts'
import {
  type Branch,
  type Extension,
  type Leaf,
  newLeaf,
  type Owner,
  type Place,
  STORED,
  storageRootOf,
  TrieError,
  type TrieNode,
} from './trie-node.ts'
import { type Absent, prefetch, type Route } from './trie-prefetch.ts'
import {
  collectWrites,
  KEYS_BYTES,
  nodeKey,
  type ReplacedRows,
  rowName,
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
} from './trie-update.ts'

/** The trie after one block, or after its flashblocks so far. Valid until a version that does not stand on it is folded. */
export type TrieVersion = {
  readonly owner: Owner
  /** Others share its nodes: it changes no more. */
  isForked: boolean
  root: TrieNode | undefined
  /** Rows of earlier versions whose place has another kind of node now, or none. */
  readonly replaced: ReplacedRows
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

/** `cacheNodes`: stored nodes kept in memory, about a kilobyte each. */
export function openTrie(options: {
  readonly database: TrieRows
  readonly cacheNodes?: number
}): StateTrie {
  const { database, cacheNodes = 65_536 } = options
  const memory = { epoch: 1, nodes: 0, keepEpochs: 64 }
  let base: TrieVersion

  const decode = (
    raw: Bytes | undefined,
    {
      space,
      place,
      expected,
    }: { readonly space: TrieSpace; readonly place: Place; readonly expected: Bytes },
  ): TrieNode => {
    const hash = raw && hashForNode(raw)
    if (raw === undefined || hash === undefined || !equalBytes(hash, expected))
      throw new TrieError(
        `${space.column}: the node at depth ${place.depth} is ${raw === undefined ? 'absent' : 'another'}: the database is damaged`,
      )
    const node = decodeNode(raw, place, memory.epoch)
    node.reference = hash
    memory.nodes++
    return node
  }
  const read = (space: TrieSpace, place: Place, expected: Bytes): TrieNode =>
    decode(database.get(space.column, nodeKey(space, place)), { space, place, expected })
  const load = (absent: readonly Absent[]): readonly TrieNode[] =>
    readMany(database, absent).map((raw, at) => {
      const { space, parent, nibble, place } = absent[at]!
      const node = decode(raw, { space, place, expected: childHash(parent, nibble) })
      if (parent.kind === 'branch') parent.children[nibble] = node
      else parent.child = node
      return node
    })
  /** A leaf that a diff names with its value before is hashed to see whether it is the one that stands there: cheaper than a read. */
  const recall = ({ parent, nibble, place }: Absent, value: Bytes): boolean => {
    if (parent.kind !== 'branch') return false
    const entry = { key: place.key, value, storage: undefined }
    const leaf = newLeaf(STORED, entry, { start: place.depth, seen: memory.epoch })
    if (!equalBytes(hashNode(leaf), childHash(parent, nibble))) return false
    parent.children[nibble] = leaf
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
      if (parent.kind === 'branch') parent.children[nibble] = child
      else parent.child = child
      return child
    },
    replaced(previous, place) {
      const row = { column: space.column, key: nodeKey(space, place), raw: previous }
      version.replaced.set(rowName(row.column, row.key), row)
    },
  })
  const storageOf = (leaf: Leaf | undefined, space: TrieSpace): TrieNode | undefined => {
    if (leaf === undefined) return undefined
    const expected = storageRootOf(leaf.value)
    if (leaf.storage === undefined && !equalBytes(expected, EMPTY_ROOT))
      leaf.storage = read(space, { key: leaf.key, depth: 0 }, expected)
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
      storage: changes.length === 0 ? undefined : storageOf(leaf, space),
    }
  }
  const updateStorage = (
    version: Pick<TrieVersion, 'owner' | 'replaced'>,
    { leaf, space, changes, storage: before }: OpenAccount,
  ): { readonly storage: TrieNode | undefined; readonly root: Bytes } => {
    if (changes.length === 0)
      return {
        storage: leaf?.storage,
        root: leaf === undefined ? EMPTY_ROOT : storageRootOf(leaf.value),
      }
    const storage = updateTrie(trieIn(space, version), before, changes)
    return { storage, root: rootHash(storage) }
  }

  const reload = () => {
    const place = { key: new Uint8Array(32), depth: 0 }
    const raw = database.get('accountTrie', nodeKey(ACCOUNTS, place))
    const root = raw === undefined ? undefined : read(ACCOUNTS, place, keccak256(raw))
    memory.nodes = root === undefined ? 0 : 1
    base = { owner: { isStored: true }, isForked: true, root, replaced: new Map() }
  }
  reload()

  function* keepNodes(epochs: number): Generator<undefined, void> {
    const before = memory.nodes
    const { epoch } = memory
    const kept = base.root === undefined ? 0 : yield* trim(base.root, { epoch, epochs })
    // Others have read some meanwhile; the next look counts those anew.
    memory.nodes = kept + memory.nodes - before
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
      prefetch([accountRoute(root, diff, keys)], { load, recall })
      const opened = diff.map(({ slots }, at) => open(accounts, root, { key: keys[at]!, slots }))
      prefetch(opened.map(routeOf), { load, recall })
      const changes: Change[] = []
      for (const [at, { address, after }] of diff.entries()) {
        const key = keys[at]!
        const { storage, root } = updateStorage(version, opened[at]!)
        if (after !== undefined)
          changes.push({ key, value: encodeLeaf(after, root), storage, before: undefined })
        else if (equalBytes(root, EMPTY_ROOT))
          changes.push({ key, value: undefined, storage: undefined, before: undefined })
        else
          throw new TrieError(
            `account 0x${Buffer.from(address).toString('hex')} is deleted but keeps slots`,
          )
      }
      version.root = updateTrie(accounts, version.root, sortChanges(changes))
      rootHash(version.root)
    },
    stateRoot: (version) => rootHash(version.root),
    storageRoot: (version, address) => trie.storageRootAfter(version, address, []),
    storageRootAfter(version, address, slots) {
      const key = keccak256(address)
      const scratch = scratchOn(version)
      const account = open(trieIn(ACCOUNTS, scratch), version.root, { key, slots })
      return updateStorage(scratch, account).root
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
        account: leaf?.value,
        storageProofs: keys.map((slot) => provePath(slots, storage, keccak256(slot))),
      }
    },
    writes: ({ root, owner, replaced }) => collectWrites(root, owner, replaced),
    stored(version, writes) {
      version.owner.isStored = true
      memory.epoch++
      // The others take the place of nodes that were in memory.
      for (const { previous } of writes) if (previous === undefined) memory.nodes++
      version.replaced.clear()
      base = version
    },
    *trim() {
      if (memory.nodes <= cacheNodes) return
      const { keepEpochs } = memory
      yield* keepNodes(keepEpochs)
      // Moves to where what blocks touch just fits; a second look only where the limit is not kept.
      if (memory.nodes < 0.6 * cacheNodes) memory.keepEpochs = Math.min(1024, keepEpochs + 4)
      else if (memory.nodes > 0.8 * cacheNodes) memory.keepEpochs = Math.floor(keepEpochs * 0.9)
      while (memory.nodes > cacheNodes && memory.keepEpochs > 0) {
        memory.keepEpochs >>= 1
        yield* keepNodes(memory.keepEpochs)
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
  replaced: new Map(),
})

const ACCOUNTS: TrieSpace = { column: 'accountTrie', prefix: new Uint8Array(0) }

/** An account of a diff while it is applied: what it had, and the sorted changes of its slots. */
type OpenAccount = {
  readonly leaf: Leaf | undefined
  readonly space: TrieSpace
  readonly changes: readonly Change[]
  /** Read only where slots change. */
  readonly storage: TrieNode | undefined
}
const routeOf = ({ space, storage, changes }: OpenAccount): Route => ({
  space,
  root: storage,
  keys: changes.map(({ key }) => key),
  valueBefore: (at) => changes[at]!.before && encodeWord(changes[at]!.before),
})

/** What an account without code was is known whole; the storage root of another one is not. */
function accountRoute(root: TrieNode | undefined, diff: StateDiff, keys: readonly Bytes[]): Route {
  const order = keys.map((_, at) => at)
  order.sort((a, b) => Buffer.compare(keys[a]!, keys[b]!))
  return {
    space: ACCOUNTS,
    root,
    keys: order.map((at) => keys[at]!),
    valueBefore(at) {
      const { before } = diff[order[at]!]!
      if (before === undefined || !equalBytes(before.codeHash, EMPTY_HASH)) return undefined
      return encodeLeaf(before, EMPTY_ROOT)
    },
  }
}

/** Bytes of a node's key at the most. */
const MAX_KEY = 65
/** Nodes of one read. */
const MAX_READ = 1_024

/** Rows in the order of their places. */
function readMany(database: TrieRows, absent: readonly Absent[]): readonly (Bytes | undefined)[] {
  const rows: (Bytes | undefined)[] = []
  const slab = newSlab(Math.min(KEYS_BYTES, absent.length * MAX_KEY))
  for (let from = 0; from < absent.length; ) {
    const { column } = absent[from]!.space
    let to = from + 1
    while (to < absent.length && to - from < MAX_READ && absent[to]!.space.column === column) to++
    const keys = absent.slice(from, to).map(({ space, place }) => nodeKey(space, place, slab))
    rows.push(...database.getMany(column, keys))
    from = to
  }
  return rows
}

const encodeLeaf = ({ nonce, balance, codeHash }: AccountState, storageRoot: Bytes): Bytes =>
  encodeRlp([rlpUint(nonce), rlpUint(balance), storageRoot, codeHash])

const slotChange = ({ key, before, after }: SlotChange): Change => ({
  key: hashForNode(key),
  value: encodeWord(after),
  storage: undefined,
  before,
})

/** RLP of a slot's value; undefined for zero, which no leaf holds. */
function encodeWord(word: Bytes): Bytes | undefined {
  let zeros = 0
  while (zeros < 32 && word[zeros] === 0) zeros++
  if (zeros === 32) return undefined
  if (zeros === 31 && word[31]! < 0x80) return word.slice(31)
  const rlp = newBytes(33 - zeros)
  rlp[0] = 0x80 + 32 - zeros
  for (let at = zeros; at < 32; at++) rlp[1 + at - zeros] = word[at]!
  return rlp
}
