/**
 * This module finds the visible blocks of a view in plain execution, with their newest flashblock.
 */
import type { Block, ChainView } from '../../../engine/chain/types.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { equalBytes, ZERO_32 } from '../../../engine/primitives/words.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { ancestorAt, type TrueBlock, type TrueChain, type TruePart } from './chain.ts'

export type VisibleBlock = {
  readonly block: TrueBlock
  /** The index of its newest flashblock; undefined: the full block. */
  readonly at: number | undefined
  /** The hash, where it differs from the flashblock's: the rest came with the canonical block. */
  readonly hash?: Uint8Array
  /** The partial block, where a later flashblock has stated other refunds than this one. */
  readonly part?: TruePart
}
export type VisibleHeads = {
  readonly canonical: VisibleBlock
  readonly latest: VisibleBlock
  readonly pending: VisibleBlock
}

/** The response differs from plain execution. */
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
  const format = (bytes: typeof found) =>
    bytes instanceof Uint8Array ? bytesToHex(bytes).slice(0, 80) : String(bytes)
  same(format(found), format(wanted), what)
}

export const partOf = ({ block, at, part }: VisibleBlock) =>
  part ?? block.parts[at ?? block.parts.length - 1]
export const executedIn = (visible: VisibleBlock) =>
  (visible.at === undefined ? undefined : partOf(visible)?.executed) ?? visible.block.executed
export const countOf = (visible: VisibleBlock): number => executedIn(visible).length
export const nameOf = ({ block, at }: VisibleBlock): string =>
  `block ${block.number}.${at ?? 'end'} of ${block.payloadId || 'the genesis'}`

/**
 * Finds the heads of a view.
 * @param mayBeCut a feed that lies about the end of a block may have ended one too early
 */
export function headsOf(view: ChainView, chain: TrueChain, mayBeCut: boolean): VisibleHeads {
  const find = (what: string, selector: Parameters<ChainView['block']>[0]) => {
    const block = view.block(selector)
    if (block === undefined) throw new Mismatch(`the view has no ${what} block`)
    return visibleOf(block, chain, mayBeCut)
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

export function visibleOf(block: Block, chain: TrueChain, mayBeCut: boolean): VisibleBlock {
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
  const rest = exact === undefined ? remainderOf(block, chain, mayBeCut) : undefined
  if (rest !== undefined) return rest
  if (exact === undefined && !(mayBeCut && found.length > 0))
    throw new Mismatch(
      `block ${block.number} index ${block.flashblockIndex}, ${bytesToHex(block.hash)}, was never sent`,
    )
  return exact ?? found[0]!
}

/**
 * Finds a complete block that is visible before its roots are known. Its remainder came with the
 * canonical block, or is the post-exec transaction of its end. A feed that lies about the end
 * brings the transaction that its last flashblock states.
 */
function remainderOf(block: Block, chain: TrueChain, mayBeCut: boolean): VisibleBlock | undefined {
  for (const truth of chain.byHash.values()) {
    const { parts, header, executed, forged } = truth
    if (forged !== undefined || !equalBytes(header.mixHash, block.header.mixHash)) continue
    const last = parts.length - 1
    if (isRemainder(block, header)) return remainderIn(block, truth, { at: last, executed })
    const cut = mayBeCut ? parts.findLastIndex((part) => isRemainder(block, part.header)) : -1
    if (cut >= 0) return remainderIn(block, truth, { at: cut, executed: parts[cut]!.executedAtEnd })
  }
  return undefined
}

/**
 * Whether the block has this header without a state root. The withdrawals root is that of its
 * newest flashblock, or absent.
 */
function isRemainder({ header, hash }: Block, truth: TrueBlock['header']): boolean {
  const { withdrawalsRoot } = header
  const roots = { stateRoot: ZERO_32, ...(withdrawalsRoot && { withdrawalsRoot }) }
  return equalBytes(hashHeader({ ...truth, ...roots }), hash)
}

function remainderIn(
  { hash }: Block,
  truth: TrueBlock,
  { at, executed }: { readonly at: number; readonly executed: TruePart['executed'] },
): VisibleBlock {
  return { block: truth, at, hash, part: { ...truth.parts[at]!, executed } }
}

const cuts = new WeakMap<TruePart, TrueBlock>()
/** Makes the block that a lying feed ended early. */
function cutShort({ block, at }: { readonly block: TrueBlock; readonly at: number }): VisibleBlock {
  const part = block.parts[at]!
  const known = cuts.get(part)
  if (known !== undefined) return { block: known, at: undefined }
  const cut = {
    ...block,
    parts: block.parts.slice(0, at + 1),
    header: part.header,
    hash: part.hash,
    changes: part.changes,
    state: part.state,
    executed: part.executedAtEnd,
  }
  cuts.set(part, cut)
  return { block: cut, at: undefined }
}

/** Whether `other` shows everything that `one` shows. */
export function covers(other: VisibleBlock, one: VisibleBlock): boolean {
  const there = ancestorAt(other.block, one.block.number)
  if (there === undefined || there.payloadId !== one.block.payloadId) return false
  if (there !== other.block) return true
  return countOf(other) >= countOf(one) && (other.at ?? Number.MAX_VALUE) >= (one.at ?? 0)
}
