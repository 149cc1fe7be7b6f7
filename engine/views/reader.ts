/**
 * Reads state through a view: diff layers first, then persisted state. Each persisted read is
 * followed by a check of the persisted id (ADR 3).
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import {
  ACCOUNT_WORDS,
  type Presence,
  SLOT_WORDS,
  type StateReader,
  ViewError,
} from '../state/reader.ts'
import type { BlockId, StoreReader } from '../storage/types.ts'
import { type Arena, OLDEST, openArena, PERSISTED_ID, readAt, stampAt, UNWINDS } from './arena.ts'
import { type FlatCache, openCache } from './cache.ts'
import type { ChainSnapshot, Position } from './chain-snapshot.ts'
import {
  ACCOUNT,
  CODE,
  entriesOf,
  FINAL,
  keyAt,
  parentHeightOf,
  parentOf,
  readBlob,
  SLOT,
  valueAt,
  valueWordsOf,
} from './diff-layer.ts'
import { type Lease, type Leases, openLeases } from './lease.ts'
import type { SharedViews } from './types.ts'
import {
  blockAt,
  completeBlocks,
  createQuery,
  findInChain,
  hashOf,
  prepare,
  type Query,
} from './walk.ts'

export type ViewThread = {
  readonly arena: Arena
  readonly store: StoreReader
  readonly leases: Leases
  readonly cache: FlatCache
  readonly query: Query
  /** One buffer for values from the store is enough, because reads do not overlap. */
  readonly scratch: ReturnType<typeof createScratch>
}

/**
 * Opens a thread's access to views.
 * @param options `thread` is the thread's own row of leases. `front` is the row that lends it
 * snapshots, 0 by default.
 */
export function openViewThread(options: {
  readonly views: SharedViews
  readonly store: StoreReader
  readonly thread: number
  readonly front?: number
  readonly seesAll?: boolean
}): ViewThread {
  const arena = openArena(options.views)
  return {
    arena,
    store: options.store,
    leases: openLeases(arena, options.thread, options),
    cache: openCache(options.views.cache),
    query: createQuery(),
    scratch: createScratch(),
  }
}

/**
 * Opens the state after `at`, a block or prefix of the lease's snapshot.
 * @throws {ViewError} 'pruned' for a prefix of a persisted block, because flat state and history
 * have complete blocks only
 */
export function openState(thread: ViewThread, lease: Lease, at: Position): StateReader {
  const { arena, cache, query, scratch, store } = thread
  const { snapshot } = lease
  const { base } = snapshot
  if (at.tag !== FINAL && at.height <= base.height)
    throw new ViewError('pruned', `state within block ${at.height} is not kept any more`)
  const flatCheck = openFlatCheck(arena, snapshot, at)
  const { load, putValue } = scratch
  const { flat, valueAfter, readOld } = openHistory(thread, snapshot)
  const isLazy = store.isLazy()

  function read(kind: number, out: Uint32Array, outAt: number): Presence {
    assertLeased(lease)
    prepare(arena, query, kind)
    if (at.height < base.height) {
      // A value that no later block has changed comes from a row of flat state.
      if (isLazy) arena.bytes[readAt(arena, query.hash)] = 1
      return readOld(kind, at.height, { out, outAt })
    }
    const entry = findInChain(arena, query, at, base.height)
    if (entry !== 0) return copyEntry(arena, entry, out, outAt)
    if (isLazy) arena.bytes[readAt(arena, query.hash)] = 1
    if (cache.find(query) && isFresh()) return cache.read(out, outAt) === 0 ? 'absent' : 'present'
    const value = flat(kind)
    if (flatCheck.isOvertaken()) return putValue(valueAfter(kind, base.height), out, outAt)
    // A missing value is not cached, because it may be fetched at any moment without a notice.
    if (value !== 'missing')
      cache.store(query, value === undefined ? NOTHING : load(value), flatCheck)
    return putValue(value, out, outAt)
  }
  function isFresh(): boolean {
    const height = cache.height()
    const isSame =
      cache.unwinds() === snapshot.unwinds &&
      Atomics.load(arena.words, stampAt(arena, query.hash)) <= height &&
      (height <= base.height || flatCheck.isComplete(cache.block()))
    /*
     * An unwind comes before a persist pass of another branch, which may lower the stamp. The stamp
     * is therefore read first.
     */
    if (isSame) assertValid(arena, snapshot)
    return isSame
  }

  return {
    account(owner, out, outAt) {
      query.key.set(owner)
      return read(ACCOUNT, out, outAt)
    },
    slot(owner, key, out, outAt) {
      query.key.set(owner)
      query.key.set(key, 5)
      return read(SLOT, out, outAt)
    },
    code: (hash) => readCode(thread, lease, at, hash),
    blockHash: (number) => readBlockHash(thread, lease, at, number),
    hasSlots(owner) {
      /*
       * Old slots cannot be listed. An account without code and nonce can have storage only from
       * before EIP-161: by genesis or a failed creation.
       */
      if (at.height < base.height) return false
      for (const _ of readSlots({ thread, lease, at, flatCheck }, owner)) return true
      return false
    },
    slots: (owner) => readSlots({ thread, lease, at, flatCheck }, owner),
  }
}

/** Opens reads of the query's key in the persisted head and in the blocks below. */
function openHistory({ arena, store, cache, query, scratch }: ViewThread, snapshot: ChainSnapshot) {
  const address = query.bytes.subarray(0, 20)
  const slotKey = query.bytes.subarray(0, 52)

  const flat = (kind: number) =>
    kind === ACCOUNT ? store.flatAccount(address) : store.flatSlot(slotKey)
  const historyOf = (kind: number, number: number) =>
    kind === ACCOUNT ? store.accountHistory(address, number) : store.slotHistory(slotKey, number)
  const hasChanged = (number: number) =>
    Atomics.load(arena.words, stampAt(arena, query.hash)) > number
  /**
   * Reads the latest value, then the first change after block `number`; the second read notices a
   * persist pass in between.
   * A change that is found suffices alone, because later changes are stored after the first. The
   * stamp says whether a search for a change is worthwhile.
   */
  function valueAfter(
    kind: number,
    number: number,
    isChanged = hasChanged(number),
  ): Bytes | undefined | 'missing' {
    const change = isChanged ? historyOf(kind, number) : 'unchanged'
    if (change !== 'unchanged') {
      assertRetained(number)
      return change
    }
    const latest = flat(kind)
    const before = historyOf(kind, number)
    assertRetained(number)
    return before === 'unchanged' ? latest : before
  }
  /** Reads a value after an old block, cached under its height until an unwind. */
  function readOld(
    kind: number,
    height: number,
    { out, outAt }: { readonly out: Uint32Array; readonly outAt: number },
  ): Presence {
    const isChanged = hasChanged(height)
    query.kind = kind | OLD
    query.hash ^= Math.imul(height, HEIGHT_MIX)
    if (cache.find(query) && cache.height() === height && cache.unwinds() === snapshot.unwinds) {
      assertRetained(height)
      return cache.read(out, outAt) === 0 ? 'absent' : 'present'
    }
    const value = valueAfter(kind, height, isChanged)
    if (value !== 'missing') {
      const words = value === undefined ? NOTHING : scratch.load(value)
      cache.store(query, words, { id: 0, height, unwinds: snapshot.unwinds })
    }
    return scratch.putValue(value, out, outAt)
  }
  /** The check follows the read, because pruning or an unwind could have come before. */
  function assertRetained(number: number): void {
    assertValid(arena, snapshot)
    if (number < Atomics.load(arena.words, OLDEST))
      throw new ViewError('pruned', `state of block ${number} is not kept any more`)
  }
  return { flat, valueAfter, readOld }
}

function createScratch() {
  const scratch = new Uint32Array(ACCOUNT_WORDS)
  const scratchBytes = new Uint8Array(scratch.buffer)

  function load(value: Bytes): Uint32Array {
    scratchBytes.set(value)
    return scratch.subarray(0, value.length >> 2)
  }
  function putValue(
    value: Bytes | undefined | 'missing',
    out: Uint32Array,
    outAt: number,
  ): Presence {
    if (value === 'missing') return 'missing'
    if (value === undefined) return 'absent'
    out.set(load(value), outAt)
    return 'present'
  }

  return { load, putValue }
}

const NOTHING = new Uint32Array(0)
/** Flag in the kind of a cached value that belongs to an old block. */
const OLD = 0x80
/** Odd multiplier, far from a power of two, which spreads heights over the cache. */
const HEIGHT_MIX = 0x9e3779b1

/** Checks that flat state is right for this view: its block is the base or complete here. */
type FlatCheck = {
  /** The persisted block at the last check and the unwinds of the view: a value's origin. */
  readonly id: BlockId
  readonly height: number
  readonly unwinds: number
  isComplete(id: BlockId): boolean
  /**
   * Checks persisted id and unwinds after a read.
   * @throws {ViewError} 'void' after an unwind
   */
  isOvertaken(): boolean
}

function openFlatCheck(arena: Arena, snapshot: ChainSnapshot, at: Position): FlatCheck {
  let complete: Map<BlockId, number> | undefined
  let id = 0
  let height = 0
  const heights = () => {
    complete ??= new Map([
      [snapshot.base.id, snapshot.base.height] as const,
      // A prefix is left out, because flat state has the rest of its block once that is persisted.
      ...completeBlocks(arena, at, snapshot.base.height),
    ])
    return complete
  }
  return {
    get id() {
      return id
    },
    get height() {
      return height
    },
    unwinds: snapshot.unwinds,
    isComplete: (block) => heights().has(block),
    isOvertaken() {
      const now = Atomics.load(arena.words, PERSISTED_ID)
      // The unwinds are checked last, because an unwind could restore an id of this view.
      assertValid(arena, snapshot)
      if (now === id) return false
      const found = heights().get(now)
      if (found === undefined) return true
      id = now
      height = found
      return false
    },
  }
}

/** @throws {ViewError} 'void' when the chain was unwound since the snapshot */
export function assertValid(arena: Arena, snapshot: ChainSnapshot): void {
  if (Atomics.load(arena.words, UNWINDS) !== snapshot.unwinds)
    throw new ViewError('void', 'the chain was unwound below this view: take a newer one')
}

/** @throws {Error} after the release, because a read could then see recycled pages */
export function assertLeased(lease: Lease): void {
  if (!lease.isLeased())
    throw new Error(`views: snapshot ${lease.snapshot.number} was released already`)
}

function copyEntry(arena: Arena, entry: number, out: Uint32Array, outAt: number): Presence {
  const count = valueWordsOf(arena, entry)
  if (count === 0) return 'absent'
  const from = valueAt(arena, entry)
  for (let i = 0; i < count; i++) out[outAt + i] = arena.words[from + i]!
  return 'present'
}

function readCode(
  { arena, store, query }: ViewThread,
  lease: Lease,
  at: Position,
  hash: Bytes,
): Bytes | 'missing' {
  assertLeased(lease)
  if (equalBytes(hash, EMPTY_HASH)) return NO_BYTES
  query.bytes.set(hash)
  prepare(arena, query, CODE)
  const entry = findInChain(arena, query, at, lease.snapshot.base.height)
  if (entry !== 0) {
    const value = valueAt(arena, entry)
    return readBlob(arena, arena.words[value]!, arena.words[value + 1]!)
  }
  if (store.isLazy()) arena.bytes[readAt(arena, query.hash)] = 1
  const code = store.code(hash)
  if (code === undefined) assertValid(arena, lease.snapshot)
  return code ?? 'missing'
}

function readBlockHash(
  thread: ViewThread,
  lease: Lease,
  at: Position,
  number: bigint,
): Bytes | undefined {
  assertLeased(lease)
  const { arena, store } = thread
  const { base } = lease.snapshot
  if (number > BigInt(at.height) || number < 0n) return undefined
  const height = Number(number)
  if (height > base.height) {
    const block = blockAt(arena, at, base.height, height)
    return block === undefined ? undefined : hashOf(arena, block)
  }
  if (height === base.height) return base.hash
  const hash = store.hashOfNumber(height)
  assertValid(arena, lease.snapshot)
  return hash
}

/** Yields the slots of the chain's diff layers, newest first, over those of flat state. */
function* readSlots(
  view: {
    readonly thread: ViewThread
    readonly lease: Lease
    readonly at: Position
    readonly flatCheck: FlatCheck
  },
  owner: Uint32Array,
): Generator<{ readonly key: Bytes; readonly value: Bytes }> {
  const { thread, lease, at, flatCheck } = view
  const { arena, store } = thread
  assertLeased(lease)
  const { base } = lease.snapshot
  if (at.height < base.height)
    throw new ViewError('pruned', `slots of an account cannot be listed at block ${at.height}`)
  const address = Buffer.from(Int32Array.from(owner).buffer)
  const overlay = new Map<string, Bytes | undefined>()
  let { diffLayer, height, tag } = at
  while (height > base.height) {
    for (const entry of entriesOf(arena, diffLayer, SLOT, tag)) {
      const from = keyAt(entry) * 4
      if (address.compare(arena.bytes, from, from + 20) !== 0) continue
      const key = Buffer.from(arena.bytes.slice(from + 20, from + 52)).toString('latin1')
      if (overlay.has(key)) continue
      const value = valueAt(arena, entry) * 4
      const isAbsent = valueWordsOf(arena, entry) === 0
      overlay.set(key, isAbsent ? undefined : arena.bytes.slice(value, value + SLOT_WORDS * 4))
    }
    const below = parentHeightOf(arena, diffLayer)
    if (below !== height) tag = FINAL
    diffLayer = parentOf(arena, diffLayer)
    height = below
  }
  const check = () => {
    if (flatCheck.isOvertaken())
      throw new ViewError('void', 'a persist pass overtook the listing of slots: take a newer view')
  }
  for (const slot of store.flatSlots(address)) {
    if (overlay.has(Buffer.from(slot.key).toString('latin1'))) continue
    // The check runs before each slot, because the caller may stop early.
    check()
    yield slot
  }
  check()
  for (const [key, value] of overlay)
    if (value !== undefined) yield { key: Uint8Array.from(Buffer.from(key, 'latin1')), value }
}
