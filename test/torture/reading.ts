/** One leased view, and its truth in the ledger. */
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
import { PARTIAL_HEADER_BLOCKS } from '../../engine/storage/blocks/prune.ts'
import { type Arena, HEAD, OLDEST, UNWINDS } from '../../engine/views/arena.ts'
import { type ChainSnapshot, readSnapshot } from '../../engine/views/chain-snapshot.ts'
import type { Count } from './counters.ts'
import {
  ancestorOf,
  blockOf,
  FINAL_STEP,
  hashOf,
  type LedgerSnapshot,
  snapshotOf,
} from './ledger.ts'
import type { Point, Truth } from './truth.ts'

/** Tools of a reading thread. */
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
  readonly snapshot: ChainSnapshot
  readonly heads: LedgerSnapshot
  /** Newest point that the endpoint shows. */
  readonly top: Point
  readonly topHeight: number
}

/** Some answers of a view come from another view. */
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

/** @throws {MixedView} when heads and base are not the published ones. */
export function openReading(reader: Reader, leased: LeasedView, endpoint: Endpoint): Reading {
  const { arena, truth } = reader
  const { ledger } = truth
  const { view } = leased
  const heads = snapshotOf(ledger, leased.snapshot)
  const snapshot = readSnapshot(arena, leased.snapshot)
  const isStandard = endpoint === 'standard'
  const pending = isStandard
    ? { salt: heads.canonical, step: FINAL_STEP }
    : { salt: heads.pending, step: heads.pendingStep }
  const name = (what: string) => () => `${what} of snapshot ${leased.snapshot}`
  const latest = isStandard ? heads.canonical : heads.complete
  same(view.canonical.hash, hashOf(ledger, heads.canonical, FINAL_STEP), name('canonical'))
  same(view.latest.hash, hashOf(ledger, latest, FINAL_STEP), name('latest'))
  same(view.pending.hash, hashOf(ledger, pending.salt, pending.step), name('pending'))
  const base = ancestorOf(ledger, heads.canonical, snapshot.base.height)
  same(snapshot.base.hash, hashOf(ledger, base, FINAL_STEP), name('base'))
  const topHeight = blockOf(ledger, pending.salt).height
  return { reader, leased, view, endpoint, snapshot, heads, top: pending, topHeight }
}

export const nameOf = ({ leased, endpoint, snapshot, top, topHeight }: Reading): string =>
  `snapshot ${leased.snapshot} (${endpoint}, top ${topHeight} ${top.salt}.${top.step}, base ${snapshot.base.height})`

/** Returns the block of the view at a height, and the last step of it. */
export function pointAt({ reader, top, topHeight }: Reading, height: number): Point {
  if (height === topHeight) return top
  return { salt: ancestorOf(reader.truth.ledger, top.salt, height), step: FINAL_STEP }
}

/** Finds a block that the view must have. */
export function blockAt(reading: Reading, selector: BlockSelector, point: Point): Block {
  const block = reading.view.block(selector)
  const wanted = hashOf(reading.reader.truth.ledger, point.salt, point.step)
  const text = 'tag' in selector ? selector.tag : 'number' in selector ? selector.number : 'other'
  same(block?.hash, wanted, () => `block ${text} of ${nameOf(reading)}`)
  return block!
}

/**
 * Returns whether the persistence thread may have deleted the partial hashes of a block. This
 * depends on the newest snapshot, not on the view.
 */
export function isLongAgo({ reader }: Reading, height: number): boolean {
  const { ledger } = reader.truth
  const newest = snapshotOf(ledger, Atomics.load(reader.arena.words, HEAD))
  return blockOf(ledger, newest.canonical).height - height >= PARTIAL_HEADER_BLOCKS
}

/**
 * Checks that the view rightly refused a response about the state of a point.
 * @throws {MixedView} when the refusal was wrong.
 */
export function checkRefusal(
  reading: Reading,
  error: ViewError,
  height: number,
  isPrefix: boolean,
) {
  const { words } = reading.reader.arena
  const { snapshot } = reading
  const name = `${error.reason} at ${height}${isPrefix ? ' (prefix)' : ''} of ${nameOf(reading)}`
  if (error.reason === 'void') {
    if (Atomics.load(words, UNWINDS) === snapshot.unwinds)
      throw new MixedView(`${name}: nothing was unfolded`)
  } else if (error.reason === 'pruned') {
    // An overtaken reader reads history at its base.
    const isBelow = Math.min(height, snapshot.base.height) < Atomics.load(words, OLDEST)
    const isGone = isBelow || (isPrefix && height <= snapshot.base.height)
    if (!isGone) throw new MixedView(`${name}: it is not pruned`)
  } else throw new MixedView(name)
}
