/** The reading side of one thread: leases, and the chain through the eyes of one endpoint (docs: views, 3: at, heads). */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { equalBytes } from '../primitives/words.ts'
import { ViewError } from '../state/reader.ts'
import type { StoredRows, StoreReader, TransactionPlace } from '../storage/types.ts'
import { OLDEST } from '../views/arena.ts'
import type { Lease } from '../views/lease.ts'
import {
  assertHeld,
  assertValid,
  openState,
  openViewThread,
  type ViewThread,
} from '../views/reader.ts'
import type { Position, ViewRecord } from '../views/record.ts'
import { FINAL, payloadOf, TRANSACTION_HASH, valueAt } from '../views/table.ts'
import type { SharedViews } from '../views/types.ts'
import {
  blockAt,
  findHash,
  findInChain,
  findWithBlock,
  hashOf,
  indexOf,
  prepare,
} from '../views/walk.ts'
import {
  type DecodedBlocks,
  hasLogs,
  keepRows,
  openDecodedBlocks,
  storedBlock,
  tableBlock,
} from './block.ts'
import { envOf } from './env.ts'
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
} from './types.ts'

/** Blocks whose transactions and receipts a thread keeps decoded. */
const DECODED_BLOCKS = 32
/** How far back an old momentary hash still answers. */
const MOMENTARY_BLOCKS = 64

/** `thread`: the row of leases that is this thread's alone; 0 is the front's. */
export function openChainReader(options: {
  readonly views: SharedViews
  readonly store: StoreReader
  readonly chain: ChainSpec
  readonly thread: number
  readonly cacheEntries?: number
}): ChainReader {
  const thread = openViewThread(options)
  const decoded = openDecodedBlocks(DECODED_BLOCKS)
  const open = (lease: Lease, endpoint: Endpoint) => ({
    view: openView({ thread, decoded, lease, endpoint, chain: options.chain }),
    record: lease.record.number,
    release: lease.release,
  })
  return {
    newestRecord: () => thread.leases.newest(),
    lease: (endpoint) => open(thread.leases.lease(), endpoint),
    adopt(record, endpoint) {
      const lease = thread.leases.adopt(record)
      return lease === undefined ? undefined : open(lease, endpoint)
    },
  }
}

type Context = {
  readonly thread: ViewThread
  readonly decoded: DecodedBlocks
  readonly lease: Lease
  readonly endpoint: Endpoint
  readonly chain: ChainSpec
}
/** Finds blocks and remembers where they are, for state. A prefix that only the store knows has no place. */
type Blocks = {
  /** The newest block this endpoint shows. */
  readonly top: Position
  at(position: Position): Block
  byNumber(number: bigint): Block | undefined
  /** Reads those that are in the store and have logs together, for whoever asks for them next. */
  readAhead(numbers: readonly bigint[]): void
  byHash(hash: Bytes): Block | undefined
  positionOf(block: Block): Position | undefined
}

function openView(context: Context): ChainView {
  const { thread, lease, endpoint, chain } = context
  const { record } = lease
  const { canonical, complete, pending } = record
  const isStandard = endpoint === 'standard'
  const latest = isStandard ? canonical : complete
  const blocks = openBlocks(context, isStandard ? canonical : pending)

  function byTag(tag: BlockTag): Block | undefined {
    if (tag === 'latest') return blocks.at(latest)
    if (tag === 'pending') return blocks.at(blocks.top)
    if (tag === 'earliest') return blocks.byNumber(chain.genesisNumber)
    const number = tag === 'safe' ? record.safe : record.finalized
    return blocks.byNumber(BigInt(Math.min(number, canonical.height)))
  }
  const oldestState = (): bigint => {
    const oldest = BigInt(Atomics.load(thread.arena.words, OLDEST))
    return oldest > chain.genesisNumber ? oldest : chain.genesisNumber
  }
  function byNumber(number: bigint): Block | undefined {
    const block = blocks.byNumber(onChain(number, chain))
    // Blocks are kept when their state is not, but where a state was loaded there are none below it.
    if (block === undefined && number < oldestState())
      throw new ViewError('pruned', `block ${number} is not here`)
    return block
  }
  function byHash(hash: Bytes, requireCanonical: boolean): Block | undefined {
    const block = blocks.byHash(hash)
    const isPrefix = block?.flashblockIndex !== undefined
    // What a block was between two flashblocks is no block of the chain, but for the one in progress.
    if (block === undefined || !isPrefix || !requireCanonical) return block
    return blocks.positionOf(block)?.header === blocks.top.header ? block : undefined
  }
  return {
    record: record.number,
    endpoint,
    canonical: placeOf(context, canonical),
    latest: placeOf(context, latest),
    pending: { ...placeOf(context, blocks.top), ...progressOf(context, blocks.top) },
    earliest: chain.genesisNumber,
    get oldestState() {
      return oldestState()
    },
    cacheKey: (basis) => cacheKeyOf(context, basis),
    block(selector: BlockSelector) {
      assertHeld(lease)
      if ('tag' in selector) return byTag(selector.tag)
      if ('number' in selector) return byNumber(selector.number)
      return byHash(selector.hash, selector.requireCanonical)
    },
    logSpans(values, range) {
      assertHeld(lease)
      const first = Number(range.first > chain.genesisNumber ? range.first : chain.genesisNumber)
      const last = Math.min(Number(range.last), blocks.top.height)
      const { store, arena } = context.thread
      // Where only a state was loaded, nothing says which logs there were in its block and before.
      if (first <= last && first <= Atomics.load(arena.words, OLDEST)) {
        const block = blocks.byNumber(BigInt(first))
        if (block === undefined) throw new ViewError('pruned', `block ${first} is not here`)
        block.logSummaries()
      }
      const spans = logSpans({ store, base: record.base.height }, values, { first, last })
      return inParts(spans, blocks.readAhead)
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

/** Stored blocks that a search for logs reads at a time: they must fit into DECODED_BLOCKS together. */
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

function openBlocks(context: Context, top: Position): Blocks {
  const { thread, decoded, lease, endpoint } = context
  const { arena, store } = thread
  const { record } = lease
  const { base } = record
  const places = new WeakMap<Block, Position | 'unknown'>()
  const remember = (block: Block, place: Position | 'unknown') => {
    places.set(block, place)
    return block
  }
  const at = (position: Position) =>
    position.table === 0
      ? stored(base.hash, base.height)
      : remember(tableBlock(thread, lease, position, decoded), position)
  /** Blocks that an unfold dropped are deleted after a while. */
  const missingAt =
    (height: number) =>
    (what: string): never => {
      assertValid(arena, record)
      if (height <= store.oldestState())
        throw new ViewError('pruned', `the ${what} is not here, only its state was loaded`)
      throw new Error(`store: no ${what}`)
    }
  const ahead = new Map<number, StoredRows>()
  const stored = (hash: Bytes, height: number, header?: Bytes) =>
    remember(storedBlock({ store, decoded, hash, height, header, missing: missingAt(height) }), {
      id: 0,
      height,
      table: 0,
      tag: FINAL,
      header: 0,
      transactions: 0,
    })
  function byNumber(number: bigint): Block | undefined {
    if (number < 0n || number > BigInt(top.height)) return undefined
    const height = Number(number)
    const found = blockAt(arena, top, base.height, height)
    if (found !== undefined) return at(found)
    if (height === base.height) return stored(base.hash, height)
    const known = ahead.get(height)
    const hash = known?.hash ?? store.hashOfNumber(height)
    // Without an unfold since, no number below the base has got another hash.
    assertValid(arena, record)
    return hash === undefined ? undefined : stored(hash, height, known?.header)
  }
  function readAhead(numbers: readonly bigint[]): void {
    assertHeld(lease)
    ahead.clear()
    const heights = numbers.map(Number).filter((height) => height < base.height)
    if (heights.length < 2) return
    for (const rows of store.blocksOf(heights, hasLogs)) {
      ahead.set(rows.number, rows)
      keepRows(decoded, rows)
    }
  }
  /** A whole block of this chain that is folded. */
  function byFinalHash(hash: Bytes): Block | undefined {
    if (equalBytes(hash, base.hash)) return stored(hash, base.height)
    const rlp = store.header(hash)
    if (rlp === undefined) return undefined
    const number = Number(decodeHeader(rlp).number)
    if (number >= base.height) return undefined
    const canonical = store.hashOfNumber(number)
    assertValid(arena, record)
    return canonical !== undefined && equalBytes(canonical, hash) ? stored(hash, number) : undefined
  }
  /** What the final block with this hash was at one of its flashblocks. */
  function byMomentaryHash(hash: Bytes): Block | undefined {
    const momentary = store.momentary(hash)
    if (momentary === undefined) return undefined
    const { blockHash } = momentary
    const place = findHash(arena, blockHash, top, base.height)
    const number = place?.height ?? byFinalHash(blockHash)?.number
    if (number === undefined) return undefined
    const height = Number(number)
    if (height <= top.height - MOMENTARY_BLOCKS) return undefined
    // Its body may be gone from the store when another branch has replaced it, but not from a leased table.
    if (place !== undefined)
      return remember(tableBlock(thread, lease, place, decoded, momentary), 'unknown')
    const missing = missingAt(height)
    return remember(
      storedBlock({ store, decoded, hash: blockHash, height, momentary, missing }),
      'unknown',
    )
  }
  return {
    top,
    at,
    byNumber,
    readAhead,
    byHash(hash) {
      const found = findHash(arena, hash, top, base.height)
      const isShown = found !== undefined && (endpoint === 'flashblocks' || found.tag === FINAL)
      if (isShown) return at(found)
      const stored =
        byFinalHash(hash) ?? (endpoint === 'flashblocks' ? byMomentaryHash(hash) : undefined)
      if (stored === undefined) assertValid(arena, record)
      return stored
    },
    positionOf(block) {
      const place = places.get(block)
      if (place === undefined) throw new Error(`block ${block.number} is not of this view`)
      return place === 'unknown' ? undefined : place
    },
  }
}

function findTransaction(
  { thread, lease }: Context,
  blocks: Blocks,
  hash: Bytes,
): { readonly block: Block; readonly index: number } | undefined {
  const { arena, store, query } = thread
  const { base } = lease.record
  query.bytes.set(hash)
  prepare(arena, query, TRANSACTION_HASH)
  // Most questions are for what is not here yet: one walk says so.
  const isHere = findInChain(arena, query, blocks.top, base.height) !== 0
  const found = isHere ? findWithBlock(arena, query, blocks.top, base.height) : undefined
  if (found !== undefined)
    return { block: blocks.at(found.block), index: arena.words[valueAt(arena, found.entry)]! }
  const place = store.transactionPlace(hash)
  assertValid(arena, lease.record)
  if (!isFolded(place, lease.record)) return undefined
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
  if (head.table === 0) return { index: 0, payloadId: undefined }
  const payload = payloadOf(thread.arena, head.table)
  return {
    index: indexOf(thread.arena, head),
    payloadId: payload === undefined ? undefined : bytesToHex(payload),
  }
}

/** Block ids are never used twice, so they stand for all that the blocks hold. A record that only raises the base changes no answer. */
function cacheKeyOf({ lease, endpoint }: Context, basis: Basis): string {
  const { canonical, complete, pending, safe, finalized } = lease.record
  const isStandard = endpoint === 'standard'
  const [latest, top] = isStandard ? [canonical, canonical] : [complete, pending]
  const keyOf = ({ id, tag }: Position) => `${id}:${tag}`
  if (basis === 'latest') return `${endpoint} latest ${keyOf(latest)}`
  if (basis === 'pending') return `${endpoint} pending ${keyOf(top)}`
  return `${endpoint} ${[canonical, latest, top].map(keyOf).join(' ')} ${safe} ${finalized}`
}
