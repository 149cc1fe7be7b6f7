/** The reading side of one thread: leases, and the chain as one endpoint sees it (ADR 3). */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { ViewError } from '../state/reader.ts'
import type { StoreReader, TransactionLocation } from '../storage/types.ts'
import { OLDEST } from '../views/arena.ts'
import type { ChainSnapshot, Position } from '../views/chain-snapshot.ts'
import { forEachChange, recordingReader } from '../views/changes.ts'
import { TRANSACTION_HASH, valueAt } from '../views/diff-layer.ts'
import type { Lease } from '../views/lease.ts'
import { assertLeased, assertValid, openState, openViewThread } from '../views/reader.ts'
import { FULL_BLOCK_INDEX, type SharedViews } from '../views/types.ts'
import { findInChain, findWithBlock, hashOf, indexOf, payloadAt, prepare } from '../views/walk.ts'
import { envOf, openDecodedBlocks } from './block.ts'
import { createLogRowsCache, type LogRowsCache } from './log-rows-cache.ts'
import { logSpans } from './logs.ts'
import {
  createPersistedHashes,
  createPersistedLocations,
  type PersistedLocations,
} from './persisted-caches.ts'
import type {
  Basis,
  Block,
  BlockSelector,
  BlockSpan,
  BlockTag,
  ChainReader,
  ChainView,
  Endpoint,
  HeadBasis,
  HeadMark,
  LatestHead,
} from './types.ts'
import { type BlocksContext, growthOf, ViewBlocks } from './view-blocks.ts'

/** Number of blocks whose decoded transactions and receipts a thread caches. */
const DECODED_BLOCKS = 32

/**
 * Opens the chain for one thread.
 * @param options `thread` is the thread's own row of leases. `front` is the row that lends it
 * snapshots, 0 by default. `latest` is 'complete' by default.
 */
export function openChainReader(options: {
  readonly views: SharedViews
  readonly store: StoreReader
  readonly chain: ChainSpec
  readonly thread: number
  readonly front?: number
  /** Includes snapshots that clients do not see yet. */
  readonly seesAll?: boolean
  readonly latest?: LatestHead
  /** Cache for log searches; nothing is cached without it. */
  readonly logRows?: LogRowsCache
}): ChainReader {
  const { chain, latest = 'complete', logRows = createLogRowsCache(0) } = options
  const thread = openViewThread(options)
  const decoded = openDecodedBlocks(DECODED_BLOCKS)
  const shared = {
    thread,
    decoded,
    logRows,
    chain,
    latest,
    persistedHashes: createPersistedHashes(),
    persistedLocations: createPersistedLocations(),
  }
  const open = (lease: Lease, endpoint: Endpoint) => {
    try {
      const view = openView({ ...shared, lease, endpoint })
      return { view, snapshot: lease.snapshot.number, release: lease.release }
    } catch (error) {
      lease.release()
      throw error
    }
  }
  return {
    newestSnapshot: () => thread.leases.newest(),
    newestOfAll: () => thread.leases.newestOfAll(),
    lease: (endpoint) => open(thread.leases.lease(), endpoint),
    adopt(snapshot, endpoint) {
      const lease = thread.leases.adopt(snapshot)
      return lease === undefined ? undefined : open(lease, endpoint)
    },
  }
}

type Context = BlocksContext & {
  readonly chain: ChainSpec
  readonly latest: LatestHead
  readonly persistedLocations: PersistedLocations
}

function openView(context: Context): ChainView {
  const { thread, lease, endpoint, chain } = context
  const { snapshot } = lease
  const { canonical } = snapshot
  const { latest, top } = headsOf(context)
  const blocks = new ViewBlocks(context, top)

  return {
    snapshot: snapshot.number,
    endpoint,
    canonical: numberAndHash(context, canonical),
    latest: numberAndHash(context, latest),
    pending: { ...numberAndHash(context, blocks.top), ...progressOf(context, blocks.top) },
    earliest: chain.genesisNumber,
    get oldestState() {
      return oldestState(context)
    },
    cacheKey: (basis) => cacheKeyOf(context, basis),
    markOf: (basis) => markOf(context, basis),
    changesSince(mark, basis, onChange) {
      assertLeased(lease)
      return forEachChangeSince(context, mark, basis, onChange)
    },
    recordingReads: (state, reads) => recordingReader(thread.arena.seed, state, reads),
    block(selector: BlockSelector) {
      assertLeased(lease)
      return blockOf(selector, { context, blocks, latest })
    },
    growth(block, from) {
      assertLeased(lease)
      return growthOf(context, blocks, { block, from })
    },
    logSpans(values, range) {
      assertLeased(lease)
      return logSpansOf(context, blocks, values, range)
    },
    logRows(number) {
      assertLeased(lease)
      return blocks.logRows(number)
    },
    findTransaction(hash) {
      assertLeased(lease)
      return findTransaction(context, blocks, hash)
    },
    persistedNumbers(hashes) {
      assertLeased(lease)
      const locations = context.thread.store.transactionLocations(hashes)
      assertValid(context.thread.arena, snapshot)
      return locations.map((location) =>
        isPersisted(location, snapshot) ? location.blockNumber : undefined,
      )
    },
    state(block) {
      const position = blocks.positionOf(block)
      if (position === undefined)
        throw new ViewError(
          'pruned',
          `state of block ${block.number} at flashblock ${block.flashblockIndex} is not kept any more`,
        )
      return openState(thread, lease, position)
    },
    trieAt: (block, limits) => thread.store.trieAt(block.hash, limits),
    env: (block) => envOf(block.header, chain),
  }
}

/** Returns the heads of the snapshot that the endpoint uses. */
function headsOf({ lease, endpoint, latest }: Context): { latest: Position; top: Position } {
  const { canonical, complete, pending } = lease.snapshot
  if (endpoint === 'standard') return { latest: canonical, top: canonical }
  return { latest: latest === 'canonical' ? canonical : complete, top: pending }
}

type VisibleChain = {
  readonly context: Context
  readonly blocks: ViewBlocks
  readonly latest: Position
}

function blockOf(selector: BlockSelector, visible: VisibleChain): Block | undefined {
  if ('tag' in selector) return byTag(selector.tag, visible)
  if ('number' in selector) return byNumber(selector.number, visible)
  if ('flashblock' in selector) return visible.blocks.byFlashblock(selector.flashblock)
  return byHash(selector.hash, selector.requireCanonical, visible)
}

function byTag(tag: BlockTag, { context, blocks, latest }: VisibleChain): Block | undefined {
  const { snapshot } = context.lease
  if (tag === 'latest') return blocks.at(latest)
  if (tag === 'pending') return blocks.at(blocks.top)
  if (tag === 'earliest') return blocks.byNumber(context.chain.genesisNumber)
  const number = tag === 'safe' ? snapshot.safe : snapshot.finalized
  return blocks.byNumber(BigInt(Math.min(number, snapshot.canonical.height)))
}

function byNumber(number: bigint, { context, blocks }: VisibleChain): Block | undefined {
  const block = blocks.byNumber(onChain(number, context.chain))
  /*
   * Blocks outlive their state. A directory that started from a loaded state has no blocks below
   * that state.
   */
  if (block === undefined && number < oldestState(context))
    throw new ViewError('pruned', `block ${number} is not here`)
  return block
}

function byHash(
  hash: Bytes,
  requireCanonical: boolean,
  { blocks }: VisibleChain,
): Block | undefined {
  const block = blocks.byHash(hash)
  const isPrefix = block?.flashblockIndex !== undefined
  // A prefix is not a canonical block, except for the newest prefix of the pending block.
  if (block === undefined || !isPrefix || !requireCanonical) return block
  return blocks.positionOf(block)?.header === blocks.top.header ? block : undefined
}

function oldestState({ thread, chain }: Context): bigint {
  const oldest = BigInt(Atomics.load(thread.arena.words, OLDEST))
  return oldest > chain.genesisNumber ? oldest : chain.genesisNumber
}

function logSpansOf(
  { thread, lease, chain }: Context,
  blocks: ViewBlocks,
  ...[values, range]: Parameters<ChainView['logSpans']>
): Iterable<BlockSpan> {
  const first = Number(range.first > chain.genesisNumber ? range.first : chain.genesisNumber)
  const last = Math.min(Number(range.last), blocks.top.height)
  const { store, arena } = thread
  /*
   * In a directory that started from a loaded state, nothing is known of logs in that block and
   * below.
   */
  if (first <= last && first <= Atomics.load(arena.words, OLDEST)) {
    const block = blocks.byNumber(BigInt(first))
    if (block === undefined) throw new ViewError('pruned', `block ${first} is not here`)
    block.logSummaries()
  }
  const hole = holeIn(store, { first, last })
  if (hole !== undefined) throw new ViewError('pruned', `block ${hole} is not here`)
  const spans = logSpans({ store, base: lease.snapshot.base.height }, values, { first, last })
  return inParts(spans, (numbers) => blocks.prefetch(numbers))
}

/**
 * Maximum number of blocks below the start of a fetched state that a search checks before it gives
 * up.
 */
const MAX_RETAINED = 1_024

/**
 * Finds a gap: a lazy state that was restarted has older blocks, but none between them and its
 * start.
 * @returns a block of the range that is missing or too far down to check; undefined: all are there
 */
function holeIn(
  store: StoreReader,
  { first, last }: { readonly first: number; readonly last: number },
): number | undefined {
  const start = store.isLazy() ? store.lazyStart() : undefined
  if (start === undefined) return undefined
  const highest = Math.min(last, start.oldestBlock - 1)
  for (let number = highest; number >= first; number--) {
    const hash = store.hashOfNumber(number)
    const isFound = hash !== undefined && store.body(hash) !== undefined
    if (!isFound || highest - number >= MAX_RETAINED) return number
  }
  return undefined
}

/** Number of stored blocks that a search for logs reads at once. */
const PREFETCH_BLOCKS = 16

function* inParts(
  spans: Iterable<BlockSpan>,
  prefetch: (numbers: readonly bigint[]) => void,
): Generator<BlockSpan, void> {
  for (const span of spans) {
    if (span.numbers.length === 0) yield span
    for (let at = 0; at < span.numbers.length; at += PREFETCH_BLOCKS) {
      const numbers = span.numbers.slice(at, at + PREFETCH_BLOCKS)
      prefetch(numbers)
      yield { first: at === 0 ? span.first : numbers[0]!, numbers }
    }
  }
}

/**
 * @throws {ViewError} for a block of an older chain. Other nodes may have such a block, unlike one
 * that does not exist yet.
 */
export function onChain(
  number: bigint,
  { genesisNumber }: Pick<ChainSpec, 'genesisNumber'>,
): bigint {
  if (number >= genesisNumber) return number
  const problem = `block ${number} is older than this chain, which begins at block ${genesisNumber}`
  throw new ViewError('pruned', problem, genesisNumber)
}

function findTransaction(
  { thread, lease, persistedLocations }: Context,
  blocks: ViewBlocks,
  hash: Bytes,
): { readonly block: Block; readonly index: number } | undefined {
  const { arena, store, query } = thread
  const { base, unwinds } = lease.snapshot
  query.bytes.set(hash)
  prepare(arena, query, TRANSACTION_HASH)
  // One walk suffices for the common case, a transaction that is not in diff layers.
  const isFound = findInChain(arena, query, blocks.top, base.height) !== 0
  const found = isFound ? findWithBlock(arena, query, blocks.top, base.height) : undefined
  if (found !== undefined)
    return { block: blocks.at(found.block), index: arena.words[valueAt(arena, found.entry)]! }
  const cached = persistedLocations.get(hash, unwinds)
  const location = cached ?? store.transactionLocation(hash)
  assertValid(arena, lease.snapshot)
  if (!isPersisted(location, lease.snapshot)) return undefined
  if (cached === undefined) persistedLocations.set(hash, unwinds, location)
  const block = blocks.byNumber(BigInt(location.blockNumber))
  return block === undefined ? undefined : { block, index: location.index }
}

/**
 * A location above the base belongs to a block persisted since. The view either has that block in
 * diff layers or does not contain it.
 */
const isPersisted = (
  location: TransactionLocation | undefined,
  { base }: ChainSnapshot,
): location is TransactionLocation => location !== undefined && location.blockNumber <= base.height

function numberAndHash({ thread, lease }: Context, head: Position) {
  const hash = head.diffLayer === 0 ? lease.snapshot.base.hash : hashOf(thread.arena, head)
  return { number: BigInt(head.height), hash }
}

/**
 * Returns the progress of the newest block. A block that only the store has lost its flashblocks.
 */
function progressOf({ thread }: Context, head: Position) {
  if (head.diffLayer === 0) return { index: FULL_BLOCK_INDEX, payloadId: undefined }
  const { arena } = thread
  const payloadId = payloadAt(arena, head)
  return { index: payloadId === undefined ? FULL_BLOCK_INDEX : indexOf(arena, head), payloadId }
}

/**
 * Keys can consist of block ids, because an id never names two contents. A snapshot that only
 * raises the base keeps its key.
 */
function cacheKeyOf(context: Context, basis: Basis): string {
  const { lease, endpoint } = context
  const { canonical, safe, finalized } = lease.snapshot
  const { latest, top } = headsOf(context)
  // The header is part of the key, because without a trie a full block gets its roots later.
  const keyOf = ({ id, tag, header }: Position) => `${id}:${tag}:${header}`
  if (basis === 'latest') return `${endpoint} latest ${keyOf(latest)}`
  if (basis === 'pending') return `${endpoint} pending ${keyOf(top)}`
  return `${endpoint} ${[canonical, latest, top].map(keyOf).join(' ')} ${safe} ${finalized}`
}

function markOf(context: Context, basis: HeadBasis): HeadMark {
  const { id, height, diffLayer, tag } = headOf(context, basis)
  return { id, height, diffLayer, tag, unwinds: context.lease.snapshot.unwinds }
}

function headOf(context: Context, basis: HeadBasis): Position {
  const { latest, top } = headsOf(context)
  return basis === 'latest' ? latest : top
}

/**
 * Reports changes since the mark. An unwind replaces blocks, so nothing is reported across one,
 * even if a head is above all of them.
 */
function forEachChangeSince(
  context: Context,
  mark: HeadMark,
  basis: HeadBasis,
  onChange: (hash: number) => void,
): boolean {
  const { thread, lease } = context
  const { base, unwinds } = lease.snapshot
  if (unwinds !== mark.unwinds) return false
  const from = { ...mark, header: 0, transactions: 0 }
  return forEachChange(thread.arena, { from, to: headOf(context, basis), base }, onChange)
}
