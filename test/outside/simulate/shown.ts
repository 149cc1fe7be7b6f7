/** What a view shows, found in plain execution: which block, up to which of its flashblocks. */
import type { Block, ChainView } from '../../../engine/chain/types.ts'
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { equalBytes, ZERO_32 } from '../../../engine/primitives/words.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { ancestorAt, type TrueBlock, type TrueChain, type TruePart } from './chain.ts'

export type Shown = {
  readonly block: TrueBlock
  /** Of its flashblocks; undefined: the whole block. */
  readonly at: number | undefined
  /** Where it is not that of a flashblock: the rest came with the canonical block. */
  readonly hash?: Uint8Array
  /** Set where a later flashblock has stated other refunds than this one was sent with. */
  readonly part?: TruePart
}
export type ShownHeads = {
  readonly canonical: Shown
  readonly latest: Shown
  readonly pending: Shown
}

/** An answer that is not that of plain execution. */
export class Mismatch extends Error {
  override name = 'Mismatch'
}
export function same<Value>(found: Value, wanted: Value, what: string): void {
  if (found !== wanted) throw new Mismatch(`${what}: ${String(found)}, expected ${String(wanted)}`)
}
export function sameBytes(
  found: Uint8Array | 'missing' | undefined,
  wanted: Uint8Array | undefined,
  what: string,
): void {
  const show = (bytes: typeof found) =>
    bytes instanceof Uint8Array ? bytesToHex(bytes).slice(0, 80) : String(bytes)
  same(show(found), show(wanted), what)
}

export const partOf = ({ block, at, part }: Shown) =>
  part ?? block.parts[at ?? block.parts.length - 1]
export const executedIn = (shown: Shown) =>
  (shown.at === undefined ? undefined : partOf(shown)?.executed) ?? shown.block.executed
export const countOf = (shown: Shown): number => executedIn(shown).length
export const nameOf = ({ block, at }: Shown): string =>
  `block ${block.number}.${at ?? 'end'} of ${block.payloadId || 'the genesis'}`

/** @param mayBeCut a feed that lies about the end of a block may have one end too early */
export function headsOf(view: ChainView, chain: TrueChain, mayBeCut: boolean): ShownHeads {
  const find = (what: string, selector: Parameters<ChainView['block']>[0]) => {
    const block = view.block(selector)
    if (block === undefined) throw new Mismatch(`the view has no ${what} block`)
    return shownOf(block, chain, mayBeCut)
  }
  const pending = find('pending', { tag: 'pending' })
  const { at, part, hash } = pending
  if (part !== undefined && hash === undefined && part !== pending.block.parts[at!])
    throw new Mismatch(`${nameOf(pending)} is shown with refunds that another flashblock states`)
  return {
    canonical: find('canonical', { hash: view.canonical.hash, requireCanonical: false }),
    latest: find('latest', { tag: 'latest' }),
    pending,
  }
}

export function shownOf(block: Block, chain: TrueChain, mayBeCut: boolean): Shown {
  const name = latin1(block.hash)
  if (block.flashblockIndex === undefined) {
    const found = chain.byHash.get(name)
    if (found !== undefined) return { block: found, at: undefined }
    const cut = chain.byCut.get(name)
    if (cut !== undefined && mayBeCut) return cutShort(cut)
    throw new Mismatch(`block ${block.number} ${bytesToHex(block.hash)} was never made`)
  }
  const found = (chain.byMoment.get(name) ?? []).filter(
    ({ part }) => part.count === block.transactionCount,
  )
  const exact = found.find(({ at }) => at === block.flashblockIndex)
  const rest = exact === undefined ? restOf(block, chain, mayBeCut) : undefined
  if (rest !== undefined) return rest
  if (exact === undefined && !(mayBeCut && found.length > 0))
    throw new Mismatch(
      `block ${block.number} index ${block.flashblockIndex}, ${bytesToHex(block.hash)}, was never sent`,
    )
  return exact ?? found[0]!
}

/**
 * A block that is all there, shown before its roots are known: what came with the canonical block,
 * or the post-exec transaction of its end. A feed that lies about the end brings the one that its
 * last flashblock states.
 */
function restOf(block: Block, chain: TrueChain, mayBeCut: boolean): Shown | undefined {
  for (const truth of chain.byHash.values()) {
    const { parts, header, executed, forged } = truth
    if (forged !== undefined || !equalBytes(header.mixHash, block.header.mixHash)) continue
    const last = parts.length - 1
    if (isRest(block, header)) return restIn(block, truth, { at: last, executed })
    const cut = mayBeCut ? parts.findLastIndex((part) => isRest(block, part.header)) : -1
    if (cut >= 0) return restIn(block, truth, { at: cut, executed: parts[cut]!.sealed })
  }
  return undefined
}

/**
 * Whether it has this header without a state root. The root of withdrawals is that of its newest
 * flashblock, or none.
 */
function isRest({ header, hash }: Block, truth: TrueBlock['header']): boolean {
  const { withdrawalsRoot } = header
  const roots = { stateRoot: ZERO_32, ...(withdrawalsRoot && { withdrawalsRoot }) }
  return equalBytes(hashHeader({ ...truth, ...roots }), hash)
}

function restIn(
  { hash }: Block,
  truth: TrueBlock,
  { at, executed }: { readonly at: number; readonly executed: TruePart['executed'] },
): Shown {
  return { block: truth, at, hash, part: { ...truth.parts[at]!, executed } }
}

const cuts = new WeakMap<TruePart, TrueBlock>()
/** A beginning of a block that a lying feed made its end. */
function cutShort({ block, at }: { readonly block: TrueBlock; readonly at: number }): Shown {
  const part = block.parts[at]!
  const known = cuts.get(part)
  if (known !== undefined) return { block: known, at: undefined }
  const cut = {
    ...block,
    parts: block.parts.slice(0, at + 1),
    ...{ header: part.header, hash: part.hash, changes: part.changes, state: part.state },
    executed: part.sealed,
  }
  cuts.set(part, cut)
  return { block: cut, at: undefined }
}

/** Whether everything that `one` shows is in what `other` shows. */
export function holds(other: Shown, one: Shown): boolean {
  const there = ancestorAt(other.block, one.block.number)
  if (there === undefined || there.payloadId !== one.block.payloadId) return false
  if (there !== other.block) return true
  return countOf(other) >= countOf(one) && (other.at ?? Number.MAX_VALUE) >= (one.at ?? 0)
}
