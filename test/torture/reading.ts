/** One leased view, and what the ledger says of it. */
import type {
  Block,
  BlockSelector,
  ChainView,
  Endpoint,
  LeasedView,
} from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { equalBytes } from '../../engine/primitives/words.ts'
import type { ViewError } from '../../engine/state/reader.ts'
import { MOMENTARY_BLOCKS } from '../../engine/storage/blocks/prune.ts'
import { type Arena, HEAD, OLDEST, UNFOLDS } from '../../engine/views/arena.ts'
import { readRecord, type ViewRecord } from '../../engine/views/record.ts'
import type { Count } from './counters.ts'
import { ancestorOf, blockOf, hashOf, type LedgerRecord, recordOf, WHOLE } from './ledger.ts'
import type { Point, Truth } from './truth.ts'

/** What a thread reads with. */
export type Reader = {
  readonly arena: Arena
  readonly truth: Truth
  readonly random: () => number
  readonly count: Count
  /** Reads of flat state by this thread so far. */
  readonly flatReads: () => number
}

export type Reading = {
  readonly reader: Reader
  readonly leased: LeasedView
  readonly view: ChainView
  readonly endpoint: Endpoint
  readonly record: ViewRecord
  readonly heads: LedgerRecord
  /** What the endpoint shows as its newest. */
  readonly top: Point
  readonly topHeight: number
}

/** Some answers of a view do not belong together, or to it. */
export class MixedView extends Error {
  override name = 'MixedView'
}

export const hex = (bytes: Bytes | 'missing' | undefined): string =>
  typeof bytes === 'object' ? Buffer.from(bytes).toString('hex').slice(0, 16) : String(bytes)

export function same(
  found: Bytes | 'missing' | undefined,
  wanted: Bytes | undefined,
  what: () => string,
): void {
  const isSame =
    typeof found === 'object' && wanted !== undefined ? equalBytes(found, wanted) : found === wanted
  if (!isSame) throw new MixedView(`${what()}: found ${hex(found)}, expected ${hex(wanted)}`)
}

/** @throws {MixedView} when heads and base are not those that were published. */
export function openReading(reader: Reader, leased: LeasedView, endpoint: Endpoint): Reading {
  const { arena, truth } = reader
  const { ledger } = truth
  const { view } = leased
  const heads = recordOf(ledger, leased.record)
  const record = readRecord(arena, leased.record)
  const isStandard = endpoint === 'standard'
  const pending = isStandard
    ? { salt: heads.canonical, step: WHOLE }
    : { salt: heads.pending, step: heads.pendingStep }
  const name = (what: string) => () => `${what} of record ${leased.record}`
  const latest = isStandard ? heads.canonical : heads.complete
  same(view.canonical.hash, hashOf(ledger, heads.canonical, WHOLE), name('canonical'))
  same(view.latest.hash, hashOf(ledger, latest, WHOLE), name('latest'))
  same(view.pending.hash, hashOf(ledger, pending.salt, pending.step), name('pending'))
  const base = ancestorOf(ledger, heads.canonical, record.base.height)
  same(record.base.hash, hashOf(ledger, base, WHOLE), name('base'))
  const topHeight = blockOf(ledger, pending.salt).height
  return { reader, leased, view, endpoint, record, heads, top: pending, topHeight }
}

export const nameOf = ({ leased, endpoint, record, top, topHeight }: Reading): string =>
  `record ${leased.record} (${endpoint}, top ${topHeight} ${top.salt}.${top.step}, base ${record.base.height})`

/** The block that the view has at a height, and how much of it. */
export function pointAt({ reader, top, topHeight }: Reading, height: number): Point {
  if (height === topHeight) return top
  return { salt: ancestorOf(reader.truth.ledger, top.salt, height), step: WHOLE }
}

/** Finds a block that must be there. */
export function blockAt(reading: Reading, selector: BlockSelector, point: Point): Block {
  const block = reading.view.block(selector)
  const wanted = hashOf(reading.reader.truth.ledger, point.salt, point.step)
  const text = 'tag' in selector ? selector.tag : 'number' in selector ? selector.number : 'other'
  same(block?.hash, wanted, () => `block ${text} of ${nameOf(reading)}`)
  return block!
}

/** Whether the keeper may have forgotten the hashes that a block had for a moment, however young the block is in the view. */
export function isLongAgo({ reader }: Reading, height: number): boolean {
  const { ledger } = reader.truth
  const newest = recordOf(ledger, Atomics.load(reader.arena.words, HEAD))
  return blockOf(ledger, newest.canonical).height - height >= MOMENTARY_BLOCKS
}

/**
 * Whether the view was right to refuse an answer about the state of a point.
 * @throws {MixedView} when it was not.
 */
export function checkRefusal(
  reading: Reading,
  error: ViewError,
  height: number,
  isPrefix: boolean,
) {
  const { words } = reading.reader.arena
  const { record } = reading
  const name = `${error.reason} at ${height}${isPrefix ? ' (prefix)' : ''} of ${nameOf(reading)}`
  if (error.reason === 'void') {
    if (Atomics.load(words, UNFOLDS) === record.unfolds)
      throw new MixedView(`${name}: nothing was unfolded`)
  } else if (error.reason === 'pruned') {
    // A reader that was overtaken reads history as of its base.
    const isBelow = Math.min(height, record.base.height) < Atomics.load(words, OLDEST)
    const isGone = isBelow || (isPrefix && height <= record.base.height)
    if (!isGone) throw new MixedView(`${name}: it is not pruned`)
  } else throw new MixedView(name)
}
