/** State as one view sees it: tables first, then what was folded, with a look at the fold word after each read (ADR 3). */
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
import { type Arena, FOLD, OLDEST, openArena, readAt, stampAt, UNFOLDS } from './arena.ts'
import { type FlatCache, openCache } from './cache.ts'
import { type Lease, type Leases, openLeases } from './lease.ts'
import type { Position, ViewRecord } from './record.ts'
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
} from './table.ts'
import type { SharedViews } from './types.ts'
import {
  blockAt,
  createQuery,
  findInChain,
  hashOf,
  heldToEnd,
  prepare,
  type Query,
} from './walk.ts'

/** What one thread reads views with. */
export type ViewThread = {
  readonly arena: Arena
  readonly store: StoreReader
  readonly leases: Leases
  readonly cache: FlatCache
  readonly query: Query
  /** A value on its way from the store: a read ends before the next one begins. */
  readonly scratch: ReturnType<typeof createScratch>
}

/** `thread`: the row of leases that is this thread's alone; `front`: the row of the one that lends it records, 0 unless said. */
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
 * The state after `at`, a block or prefix of the lease's record.
 * @throws {ViewError} 'pruned' for a prefix of a folded block: flat state and history have whole blocks.
 */
export function openState(thread: ViewThread, lease: Lease, at: Position): StateReader {
  const { arena, cache, query, scratch, store } = thread
  const { record } = lease
  const { base } = record
  if (at.tag !== FINAL && at.height <= base.height)
    throw new ViewError('pruned', `state within block ${at.height} is not kept any more`)
  const fold = openFold(arena, record, at)
  const { load, hand } = scratch
  const { flat, valueAfter, readOld } = openHistory(thread, record)
  const isLazy = store.isLazy()

  function read(kind: number, out: Uint32Array, outAt: number): Presence {
    assertHeld(lease)
    prepare(arena, query, kind)
    if (at.height < base.height) {
      // What is read is a row of flat state where no later block has changed it.
      if (isLazy) arena.bytes[readAt(arena, query.hash)] = 1
      return readOld(kind, at.height, { out, outAt })
    }
    const entry = findInChain(arena, query, at, base.height)
    if (entry !== 0) return copyEntry(arena, entry, out, outAt)
    if (isLazy) arena.bytes[readAt(arena, query.hash)] = 1
    if (cache.find(query) && isFresh()) return cache.read(out, outAt) === 0 ? 'absent' : 'present'
    const value = flat(kind)
    if (fold.isOvertaken()) return hand(valueAfter(kind, base.height), out, outAt)
    // What is missing never gets into the cache: it may be fetched at any moment, and nobody is told.
    if (value !== 'missing') cache.store(query, value === undefined ? NOTHING : load(value), fold)
    return hand(value, out, outAt)
  }
  function isFresh(): boolean {
    const height = cache.height()
    const isSame =
      cache.unfolds() === record.unfolds &&
      Atomics.load(arena.words, stampAt(arena, query.hash)) <= height &&
      (height <= base.height || fold.isHeld(cache.block()))
    // After the stamp: the fold of another branch may have set it back, and comes after the unfold.
    if (isSame) assertValid(arena, record)
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
      // Old slots cannot be listed. Only before EIP-161 could storage be left without code and nonce, in a genesis or by a failed creation.
      if (at.height < base.height) return false
      for (const _ of readSlots({ thread, lease, at, fold }, owner)) return true
      return false
    },
    slots: (owner) => readSlots({ thread, lease, at, fold }, owner),
  }
}

/** State as of the fold head, and as of a block below it, of the key that stands in the query. */
function openHistory({ arena, store, cache, query, scratch }: ViewThread, record: ViewRecord) {
  const address = query.bytes.subarray(0, 20)
  const slotKey = query.bytes.subarray(0, 52)

  const flat = (kind: number) =>
    kind === ACCOUNT ? store.flatAccount(address) : store.flatSlot(slotKey)
  const historyOf = (kind: number, number: number) =>
    kind === ACCOUNT ? store.accountHistory(address, number) : store.slotHistory(slotKey, number)
  const hasChanged = (number: number) =>
    Atomics.load(arena.words, stampAt(arena, query.hash)) > number
  /**
   * Latest value first, then the first change after block `number`: a fold in between is seen by the second read. The first change is found
   * alone where there is one, and stays the first: what is folded later stands behind it. A stamp says where it is worth looking.
   */
  function valueAfter(
    kind: number,
    number: number,
    isChanged = hasChanged(number),
  ): Bytes | undefined | 'missing' {
    const change = isChanged ? historyOf(kind, number) : 'unchanged'
    if (change !== 'unchanged') {
      assertKept(number)
      return change
    }
    const latest = flat(kind)
    const before = historyOf(kind, number)
    assertKept(number)
    return before === 'unchanged' ? latest : before
  }
  /** The same value until something is unfolded: it is cached as a kind of its own, in a place for each height. */
  function readOld(
    kind: number,
    height: number,
    { out, outAt }: { readonly out: Uint32Array; readonly outAt: number },
  ): Presence {
    const isChanged = hasChanged(height)
    query.kind = kind | OLD
    query.hash ^= Math.imul(height, HEIGHT_MIX)
    if (cache.find(query) && cache.height() === height && cache.unfolds() === record.unfolds) {
      assertKept(height)
      return cache.read(out, outAt) === 0 ? 'absent' : 'present'
    }
    const value = valueAfter(kind, height, isChanged)
    if (value !== 'missing') {
      const words = value === undefined ? NOTHING : scratch.load(value)
      cache.store(query, words, { id: 0, height, unfolds: record.unfolds })
    }
    return scratch.hand(value, out, outAt)
  }
  /** After the read: what was pruned, or unfolded, before it is seen here. */
  function assertKept(number: number): void {
    assertValid(arena, record)
    if (number < Atomics.load(arena.words, OLDEST))
      throw new ViewError('pruned', `state of block ${number} is not kept any more`)
  }
  return { flat, valueAfter, readOld }
}

/** Where bytes of a value become words. */
function createScratch() {
  const scratch = new Uint32Array(ACCOUNT_WORDS)
  const scratchBytes = new Uint8Array(scratch.buffer)

  function load(value: Bytes): Uint32Array {
    scratchBytes.set(value)
    return scratch.subarray(0, value.length >> 2)
  }
  function hand(value: Bytes | undefined | 'missing', out: Uint32Array, outAt: number): Presence {
    if (value === 'missing') return 'missing'
    if (value === undefined) return 'absent'
    out.set(load(value), outAt)
    return 'present'
  }

  return { load, hand }
}

const NOTHING = new Uint32Array(0)
/** Of the kind of a cached value: that after an old block. */
const OLD = 0x80
/** Spreads heights over the cache: an odd number, far from a power of two. */
const HEIGHT_MIX = 0x9e3779b1

/** What the fold word may say so that flat state is right for this view: the base, or a block that it holds to the end. */
type Fold = {
  /** The block last seen in the fold word, its height and the unfolds of the view: where a flat value was read. */
  readonly id: BlockId
  readonly height: number
  readonly unfolds: number
  isHeld(id: BlockId): boolean
  /** Looks at fold word and unfolds, after a read. @throws {ViewError} void. */
  isOvertaken(): boolean
}

function openFold(arena: Arena, record: ViewRecord, at: Position): Fold {
  let held: Map<BlockId, number> | undefined
  let id = 0
  let height = 0
  const heights = () => {
    held ??= new Map([
      [record.base.id, record.base.height] as const,
      // A prefix does not hold its block to the end: once folded, flat state has all of it.
      ...heldToEnd(arena, at, record.base.height),
    ])
    return held
  }
  return {
    get id() {
      return id
    },
    get height() {
      return height
    },
    unfolds: record.unfolds,
    isHeld: (block) => heights().has(block),
    isOvertaken() {
      const now = Atomics.load(arena.words, FOLD)
      // After the fold word: an unfold brings that back to what this view holds, when the value is read already.
      assertValid(arena, record)
      if (now === id) return false
      const found = heights().get(now)
      if (found === undefined) return true
      id = now
      height = found
      return false
    },
  }
}

/** @throws {ViewError} 'void' when the chain was unfolded since the record. */
export function assertValid(arena: Arena, record: ViewRecord): void {
  if (Atomics.load(arena.words, UNFOLDS) !== record.unfolds)
    throw new ViewError('void', 'the chain was unfolded below this view: take a newer one')
}

/** A read after the release would see recycled pages. */
export function assertHeld(lease: Lease): void {
  if (!lease.isHeld()) throw new Error(`views: record ${lease.record.number} was released already`)
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
  assertHeld(lease)
  if (equalBytes(hash, EMPTY_HASH)) return NO_BYTES
  query.bytes.set(hash)
  prepare(arena, query, CODE)
  const entry = findInChain(arena, query, at, lease.record.base.height)
  if (entry !== 0) {
    const value = valueAt(arena, entry)
    return readBlob(arena, arena.words[value]!, arena.words[value + 1]!)
  }
  if (store.isLazy()) arena.bytes[readAt(arena, query.hash)] = 1
  const code = store.code(hash)
  if (code === undefined) assertValid(arena, lease.record)
  return code ?? 'missing'
}

function readBlockHash(
  thread: ViewThread,
  lease: Lease,
  at: Position,
  number: bigint,
): Bytes | undefined {
  assertHeld(lease)
  const { arena, store } = thread
  const { base } = lease.record
  if (number > BigInt(at.height) || number < 0n) return undefined
  const height = Number(number)
  if (height > base.height) {
    const block = blockAt(arena, at, base.height, height)
    return block === undefined ? undefined : hashOf(arena, block)
  }
  if (height === base.height) return base.hash
  const hash = store.hashOfNumber(height)
  assertValid(arena, lease.record)
  return hash
}

/** Slots of the chain's tables, newest first, over those of flat state. */
function* readSlots(
  view: {
    readonly thread: ViewThread
    readonly lease: Lease
    readonly at: Position
    readonly fold: Fold
  },
  owner: Uint32Array,
): Generator<{ readonly key: Bytes; readonly value: Bytes }> {
  const { thread, lease, at, fold } = view
  const { arena, store } = thread
  assertHeld(lease)
  const { base } = lease.record
  if (at.height < base.height)
    throw new ViewError('pruned', `slots of an account cannot be listed at block ${at.height}`)
  const address = Buffer.from(Int32Array.from(owner).buffer)
  const laid = new Map<string, Bytes | undefined>()
  let { table, height, tag } = at
  while (height > base.height) {
    for (const entry of entriesOf(arena, table, SLOT, tag)) {
      const from = keyAt(entry) * 4
      if (address.compare(arena.bytes, from, from + 20) !== 0) continue
      const key = Buffer.from(arena.bytes.slice(from + 20, from + 52)).toString('latin1')
      if (laid.has(key)) continue
      const value = valueAt(arena, entry) * 4
      const isAbsent = valueWordsOf(arena, entry) === 0
      laid.set(key, isAbsent ? undefined : arena.bytes.slice(value, value + SLOT_WORDS * 4))
    }
    const below = parentHeightOf(arena, table)
    if (below !== height) tag = FINAL
    table = parentOf(arena, table)
    height = below
  }
  const look = () => {
    if (fold.isOvertaken())
      throw new ViewError('void', 'a fold overtook the listing of slots: take a newer view')
  }
  for (const slot of store.flatSlots(address)) {
    if (laid.has(Buffer.from(slot.key).toString('latin1'))) continue
    // Before each, for whoever stops early.
    look()
    yield slot
  }
  look()
  for (const [key, value] of laid)
    if (value !== undefined) yield { key: Uint8Array.from(Buffer.from(key, 'latin1')), value }
}
