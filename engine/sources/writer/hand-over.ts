/** A canonical block that is what we made of it goes to the keeper; one that is not is refused. */
import type { SealedBlock } from '../../chain/types.ts'
import { dropPayload } from '../../flashblocks/sequence.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { checkHeader, type Mismatch, TYPE } from './checks.ts'
import { appendOf, type LiveBlock, step } from './live-block.ts'
import {
  count,
  emit,
  freeMemory,
  isReplaced,
  labelsWith,
  publish,
  type WriterState,
  wakeAt,
  warn,
} from './state.ts'

/** Hashes of refused blocks that are remembered. */
const MAX_REFUSED = 64

export function handOver(state: WriterState, block: LiveBlock, sealed: SealedBlock): void {
  state.whole = undefined
  const wrong = checkHeader(block, sealed)
  if (wrong === undefined) {
    state.sealed.shift()
    state.fullSinceMs = undefined
    state.options.publisher.handOver(block.handle)
    step(block, 'handOver')
    state.handed = block
    if (isReplaced(state, state.chain.pending)) state.sequence = dropPayload(state.sequence)
    const marks = labelsWith(state, block.handle.number)
    emit(state, { type: 'keeper', request: { type: 'append', block: appendOf(block), marks } })
  } else {
    if (block.isWhole) state.chain.drop(block)
    refuse(state, sealed, wrong)
  }
}

/**
 * The canonical chain says something that our execution denies. A source that has others asks them first; from then on it is taken at its
 * word: the chain stands still at the parent, and a further block is tried.
 */
export function refuse(state: WriterState, sealed: SealedBlock, wrong: Mismatch): void {
  state.sealed.shift()
  for (const block of state.chain.above(state.chain.canonical))
    if (block.sealed === sealed) block.sealed = undefined
  count(state, 'canonical_mismatch')
  const { number, hash } = sealed
  const message = `${wrong.kind} is ${wrong.ours} here, ${wrong.theirs} at its source`
  if (hash !== undefined && isFirstTime(state, bytesToHex(hash))) {
    warn(state, 'sealed_refused', `canonical block ${number} is refused: ${message}`)
    const reason = reasonOf(wrong)
    emit(state, { type: 'refused', number, hash, field: wrong.kind, ...reason })
    return
  }
  const { chain } = state
  if (chain.pending !== chain.canonical) {
    state.sequence = dropPayload(state.sequence)
    chain.cutAbove(chain.canonical)
    publish(state)
  }
  halt(state, sealed, message)
}

function reasonOf({ kind, ours, theirs }: Mismatch): { readonly reason?: string } {
  if (kind === 'transaction') return { reason: ours }
  return kind === TYPE ? { reason: `type ${theirs} is not supported` } : {}
}

export const halt = (state: WriterState, { number }: SealedBlock, message: string) =>
  emit(state, { type: 'halted', message: `canonical block ${number}: ${message}`, isFatal: false })

/** No pages: pending goes, the oldest reader is stopped, and the canonical block is tried again until readers must have gone. */
export function noMemory(state: WriterState, block: LiveBlock | undefined): void {
  const { limits } = state
  const now = state.options.now()
  if (state.whole === block) state.whole = undefined
  if (block?.isWhole === true) state.chain.drop(block)
  const isCanonical = block === undefined || block.isWhole
  // What is complete above canonical is not what its source says, or it would not be executed again.
  freeMemory(state, isCanonical ? state.chain.canonical : state.chain.complete)
  if (state.sealed.length === 0) return
  state.fullSinceMs ??= now
  if (now - state.fullSinceMs > limits.memoryGraceMs)
    throw new Error(
      `the view memory stayed full for ${limits.memoryGraceMs} ms: raise --view-memory`,
    )
  state.retryAtMs = now + limits.retryMs
  wakeAt(state, state.retryAtMs)
}

function isFirstTime({ refused }: WriterState, name: string): boolean {
  if (refused.includes(name)) return false
  refused.push(name)
  if (refused.length > MAX_REFUSED) refused.shift()
  return true
}
