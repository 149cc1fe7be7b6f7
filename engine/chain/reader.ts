/** The reading side of one thread: leases, and the chain through the eyes of one endpoint (ADR 3). */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { ViewError } from '../state/reader.ts'
import type { StoreReader, TransactionPlace } from '../storage/types.ts'
import { OLDEST } from '../views/arena.ts'
import { tellChanges } from '../views/changes.ts'
import type { Lease } from '../views/lease.ts'
import { notedReader } from '../views/noted.ts'
import { assertHeld, assertValid, openState, openViewThread } from '../views/reader.ts'
import type { Position, ViewRecord } from '../views/record.ts'
import { TRANSACTION_HASH, valueAt } from '../views/table.ts'
import type { SharedViews } from '../views/types.ts'
import { findInChain, findWithBlock, hashOf, indexOf, payloadAt, prepare } from '../views/walk.ts'
import { WHOLE_INDEX } from '../views/whole-index.ts'
import { openDecodedBlocks } from './block.ts'
import { envOf } from './env.ts'
import { keepFoldedHashes } from './folded-hashes.ts'
import { type FoldedPlaces, keepFoldedPlaces } from './folded-places.ts'
import { growthOf } from './growth.ts'
import { type KeptLogRows, keepLogRows } from './kept-log-rows.ts'
import { logSpans } from './log-blocks.ts'
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
import { type BlocksContext, ViewBlocks } from './view-blocks.ts'

/** Blocks whose transactions and receipts a thread keeps decoded. */
const DECODED_BLOCKS = 32

/**
 * `thread`: the row of leases that is this thread's alone; `front`: the row of the one that lends it records, 0 unless said. `latest`:
 * complete unless said.
 */
export function openChainReader(options: {
  readonly views: SharedViews
  readonly store: StoreReader
  readonly chain: ChainSpec
  readonly thread: number
  readonly front?: number
  /** Also what clients are not shown yet. */
  readonly seesAll?: boolean
  readonly latest?: LatestHead
  /** What searches for logs keep; nothing unless said. */
  readonly logRows?: KeptLogRows
}): ChainReader {
  const { chain, latest = 'complete', logRows = keepLogRows(0) } = options
  const thread = openViewThread(options)
  const decoded = openDecodedBlocks(DECODED_BLOCKS)
  const shared = {
    ...{ thread, decoded, logRows, chain, latest },
    ...{ foldedHashes: keepFoldedHashes(), foldedPlaces: keepFoldedPlaces() },
  }
  const open = (lease: Lease, endpoint: Endpoint) => {
    try {
      const view = openView({ ...shared, lease, endpoint })
      return { view, record: lease.record.number, release: lease.release }
    } catch (error) {
      lease.release()
      throw error
    }
  }
  return {
    newestRecord: () => thread.leases.newest(),
    newestOfAll: () => thread.leases.newestOfAll(),
    lease: (endpoint) => open(thread.leases.lease(), endpoint),
    adopt(record, endpoint) {
      const lease = thread.leases.adopt(record)
      return lease === undefined ? undefined : open(lease, endpoint)
    },
  }
}

type Context = BlocksContext & {
  readonly chain: ChainSpec
  readonly latest: LatestHead
  readonly foldedPlaces: FoldedPlaces
}

function openView(context: Context): ChainView {
  const { thread, lease, endpoint, chain } = context
  const { record } = lease
  const { canonical } = record
  const { latest, top } = headsOf(context)
  const blocks = new ViewBlocks(context, top)

  return {
    record: record.number,
    endpoint,
    canonical: placeOf(context, canonical),
    latest: placeOf(context, latest),
    pending: { ...placeOf(context, blocks.top), ...progressOf(context, blocks.top) },
    earliest: chain.genesisNumber,
    get oldestState() {
      return oldestState(context)
    },
    cacheKey: (basis) => cacheKeyOf(context, basis),
    markOf: (basis) => markOf(context, basis),
    changesSince(mark, basis, tell) {
      assertHeld(lease)
      return tellSince(context, mark, basis, tell)
    },
    noted: (state, reads) => notedReader(thread.arena.seed, state, reads),
    block(selector: BlockSelector) {
      assertHeld(lease)
      return blockOf(selector, { context, blocks, latest })
    },
    growth(block, from) {
      assertHeld(lease)
      return growthOf(context, blocks, { block, from })
    },
    logSpans(values, range) {
      assertHeld(lease)
      return logSpansOf(context, blocks, values, range)
    },
    logRows(number) {
      assertHeld(lease)
      return blocks.logRows(number)
    },
    findTransaction(hash) {
      assertHeld(lease)
      return findTransaction(context, blocks, hash)
    },
    foldedNumbers(hashes) {
      assertHeld(lease)
      const places = context.thread.store.transactionPlaces(hashes)
      assertValid(context.thread.arena, record)
      return places.map((place) => (isFolded(place, record) ? place.blockNumber : undefined))
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

/** What the endpoint shows of its record. */
function headsOf({ lease, endpoint, latest }: Context): { latest: Position; top: Position } {
  const { canonical, complete, pending } = lease.record
  if (endpoint === 'standard') return { latest: canonical, top: canonical }
  return { latest: latest === 'canonical' ? canonical : complete, top: pending }
}

/** What selectors are looked up in. */
type Shown = {
  readonly context: Context
  readonly blocks: ViewBlocks
  readonly latest: Position
}

function blockOf(selector: BlockSelector, shown: Shown): Block | undefined {
  if ('tag' in selector) return byTag(selector.tag, shown)
  if ('number' in selector) return byNumber(selector.number, shown)
  if ('flashblock' in selector) return shown.blocks.byPlace(selector.flashblock)
  return byHash(selector.hash, selector.requireCanonical, shown)
}

function byTag(tag: BlockTag, { context, blocks, latest }: Shown): Block | undefined {
  const { record } = context.lease
  if (tag === 'latest') return blocks.at(latest)
  if (tag === 'pending') return blocks.at(blocks.top)
  if (tag === 'earliest') return blocks.byNumber(context.chain.genesisNumber)
  const number = tag === 'safe' ? record.safe : record.finalized
  return blocks.byNumber(BigInt(Math.min(number, record.canonical.height)))
}

function byNumber(number: bigint, { context, blocks }: Shown): Block | undefined {
  const block = blocks.byNumber(onChain(number, context.chain))
  // Blocks are kept when their state is not, but where a state was loaded there are none below it.
  if (block === undefined && number < oldestState(context))
    throw new ViewError('pruned', `block ${number} is not here`)
  return block
}

function byHash(hash: Bytes, requireCanonical: boolean, { blocks }: Shown): Block | undefined {
  const block = blocks.byHash(hash)
  const isPrefix = block?.flashblockIndex !== undefined
  // What a block was between two flashblocks is no block of the chain, but for the one in progress.
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
  // Where only a state was loaded, nothing says which logs there were in its block and before.
  if (first <= last && first <= Atomics.load(arena.words, OLDEST)) {
    const block = blocks.byNumber(BigInt(first))
    if (block === undefined) throw new ViewError('pruned', `block ${first} is not here`)
    block.logSummaries()
  }
  const hole = holeIn(store, { first, last })
  if (hole !== undefined) throw new ViewError('pruned', `block ${hole} is not here`)
  const spans = logSpans({ store, base: lease.record.base.height }, values, { first, last })
  return inParts(spans, (numbers) => blocks.readAhead(numbers))
}

/** Below the start of a fetched state, blocks that a search looks at before it may say that there are no logs. */
const MOST_KEPT = 1_024

/**
 * A lazy state that began anew keeps blocks of before, and has none between them and its start.
 * @returns a block of the range that is not here, or too far down to say; undefined: there is none
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
    const isHere = hash !== undefined && store.body(hash) !== undefined
    if (!isHere || highest - number >= MOST_KEPT) return number
  }
  return undefined
}

/** Stored blocks that a search for logs reads at a time. */
const AHEAD_BLOCKS = 16

function* inParts(
  spans: Iterable<BlockSpan>,
  readAhead: (numbers: readonly bigint[]) => void,
): Generator<BlockSpan, void> {
  for (const span of spans) {
    if (span.numbers.length === 0) yield span
    for (let at = 0; at < span.numbers.length; at += AHEAD_BLOCKS) {
      const numbers = span.numbers.slice(at, at + AHEAD_BLOCKS)
      readAhead(numbers)
      yield { first: at === 0 ? span.first : numbers[0]!, numbers }
    }
  }
}

/** @throws {ViewError} for a block of an older chain, which others may have: not the same as one that is not there yet. */
export function onChain(
  number: bigint,
  { genesisNumber }: Pick<ChainSpec, 'genesisNumber'>,
): bigint {
  if (number >= genesisNumber) return number
  const problem = `block ${number} is older than this chain, which begins at block ${genesisNumber}`
  throw new ViewError('pruned', problem, genesisNumber)
}

function findTransaction(
  { thread, lease, foldedPlaces }: Context,
  blocks: ViewBlocks,
  hash: Bytes,
): { readonly block: Block; readonly index: number } | undefined {
  const { arena, store, query } = thread
  const { base, unfolds } = lease.record
  query.bytes.set(hash)
  prepare(arena, query, TRANSACTION_HASH)
  // Most questions are for what is not here yet: one walk says so.
  const isHere = findInChain(arena, query, blocks.top, base.height) !== 0
  const found = isHere ? findWithBlock(arena, query, blocks.top, base.height) : undefined
  if (found !== undefined)
    return { block: blocks.at(found.block), index: arena.words[valueAt(arena, found.entry)]! }
  const kept = foldedPlaces.get(hash, unfolds)
  const place = kept ?? store.transactionPlace(hash)
  assertValid(arena, lease.record)
  if (!isFolded(place, lease.record)) return undefined
  if (kept === undefined) foldedPlaces.keep(hash, unfolds, place)
  const block = blocks.byNumber(BigInt(place.blockNumber))
  return block === undefined ? undefined : { block, index: place.index }
}

/** A row above the base is of a block folded since: this view has it in its tables, or does not have it. */
const isFolded = (
  place: TransactionPlace | undefined,
  { base }: ViewRecord,
): place is TransactionPlace => place !== undefined && place.blockNumber <= base.height

function placeOf({ thread, lease }: Context, head: Position) {
  const hash = head.table === 0 ? lease.record.base.hash : hashOf(thread.arena, head)
  return { number: BigInt(head.height), hash }
}

/** How far the newest block has come; a block that only the store knows has forgotten it. */
function progressOf({ thread }: Context, head: Position) {
  if (head.table === 0) return { index: WHOLE_INDEX, payloadId: undefined }
  const { arena } = thread
  const payloadId = payloadAt(arena, head)
  return { index: payloadId === undefined ? WHOLE_INDEX : indexOf(arena, head), payloadId }
}

/** Block ids are never used twice, so they stand for all that the blocks hold. A record that only raises the base changes no answer. */
function cacheKeyOf(context: Context, basis: Basis): string {
  const { lease, endpoint } = context
  const { canonical, safe, finalized } = lease.record
  const { latest, top } = headsOf(context)
  // Without a trie the header of a whole block gets its roots later.
  const keyOf = ({ id, tag, header }: Position) => `${id}:${tag}:${header}`
  if (basis === 'latest') return `${endpoint} latest ${keyOf(latest)}`
  if (basis === 'pending') return `${endpoint} pending ${keyOf(top)}`
  return `${endpoint} ${[canonical, latest, top].map(keyOf).join(' ')} ${safe} ${finalized}`
}

function markOf(context: Context, basis: HeadBasis): HeadMark {
  const { id, height, table, tag } = headOf(context, basis)
  return { id, height, table, tag, unfolds: context.lease.record.unfolds }
}

function headOf(context: Context, basis: HeadBasis): Position {
  const { latest, top } = headsOf(context)
  return basis === 'latest' ? latest : top
}

/** An unfold has replaced blocks: nothing is carried over it, though a head may be above all of them. */
function tellSince(
  context: Context,
  mark: HeadMark,
  basis: HeadBasis,
  tell: (hash: number) => void,
): boolean {
  const { thread, lease } = context
  const { base, unfolds } = lease.record
  if (unfolds !== mark.unfolds) return false
  const from = { ...mark, header: 0, transactions: 0 }
  return tellChanges(thread.arena, { from, to: headOf(context, basis), base }, tell)
}
