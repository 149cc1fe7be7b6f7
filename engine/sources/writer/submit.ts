/** A canonical block that equals ours is submitted for persistence; any other is refused. */
import type { UpstreamBlock } from '../../chain/types.ts'
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
} from './writer-state.ts'

const MAX_REFUSED = 64

export function submitForPersistence(
  state: WriterState,
  block: LiveBlock,
  upstreamBlock: UpstreamBlock,
): void {
  state.fullBlock = undefined
  const wrong = checkHeader(block, upstreamBlock)
  if (wrong === undefined) {
    state.upstreamBlocks.shift()
    state.fullSinceMs = undefined
    state.options.publisher.submitForPersistence(block.handle)
    step(block, 'submit')
    state.submitted = block
    if (isReplaced(state, state.chain.pending)) state.sequence = dropPayload(state.sequence)
    const labelledHeads = labelsWith(state, block.handle.number)
    emit(state, {
      type: 'persistence',
      request: { type: 'append', block: appendOf(block), labelledHeads },
    })
  } else {
    if (block.isFullBlock) state.chain.drop(block)
    refuse(state, upstreamBlock, wrong)
  }
}

/**
 * Refuses a canonical block that our execution contradicts. The source first asks other upstreams.
 * When the block comes again, the chain stays at the parent, and a later block is tried.
 */
export function refuse(state: WriterState, upstreamBlock: UpstreamBlock, wrong: Mismatch): void {
  state.upstreamBlocks.shift()
  for (const block of state.chain.above(state.chain.canonical))
    if (block.canonicalBlock === upstreamBlock) block.canonicalBlock = undefined
  count(state, 'canonical_mismatch')
  const { number, hash } = upstreamBlock
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
  halt(state, upstreamBlock, message)
}

function reasonOf({ kind, ours, theirs }: Mismatch): { readonly reason?: string } {
  if (kind === 'transaction') return { reason: ours }
  return kind === TYPE ? { reason: `type ${theirs} is not supported` } : {}
}

export const halt = (state: WriterState, { number }: UpstreamBlock, message: string) =>
  emit(state, { type: 'halted', message: `canonical block ${number}: ${message}`, isFatal: false })

/**
 * Handles a lack of pages: drops pending, cancels the oldest reader and schedules a retry. After
 * `memoryGraceMs` the lack is an error.
 */
export function noMemory(state: WriterState, block: LiveBlock | undefined): void {
  const { limits } = state
  const now = state.options.now()
  if (state.fullBlock === block) state.fullBlock = undefined
  if (block?.isFullBlock === true) state.chain.drop(block)
  const isCanonical = block === undefined || block.isFullBlock
  // Complete blocks above canonical differ from the source's block, or its execution would be
  // unnecessary.
  freeMemory(state, isCanonical ? state.chain.canonical : state.chain.complete)
  if (state.upstreamBlocks.length === 0) return
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
