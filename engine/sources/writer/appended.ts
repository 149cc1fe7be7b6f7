/**
 * A block that the persistence thread made durable becomes canonical. The same snapshot drops all
 * blocks of other branches.
 */

import { dropPayload } from '../../flashblocks/sequence.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { isSigned } from '../../primitives/transaction.ts'
import { equalBytes } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'
import type { StateDiff } from '../../state/diff.ts'
import { FULL_BLOCK_INDEX } from '../../views/types.ts'
import type { LiveBlock } from './live-block.ts'
import { step } from './live-block.ts'
import type { CheckedKey, WriterEffect } from './types.ts'
import { count, emit, publish, type WriterState } from './writer-state.ts'

export function onAppended(state: WriterState, block: LiveBlock): void {
  const { chain } = state
  state.options.publisher.onResponse(block.handle)
  step(block, 'append')
  state.submitted = undefined
  const replaced = replacedBy(state, block)
  const { pending } = chain
  const isExtended = chain.isAncestor(block, pending) || chain.isAncestor(pending, block)
  chain.moveCanonical(block)
  if (!isExtended) count(state, 'reconcile_replaced')
  if (pending !== chain.pending) state.sequence = dropPayload(state.sequence)
  if (block.isFullBlock) state.blocksWithoutFeed++
  const { content } = block
  const executed = content?.executed ?? []
  block.content = undefined
  publish(state, {
    transactions: block.isFullBlock ? executed.map(({ transaction }) => transaction.hash) : [],
    publishMs: 0,
    executeMs: 0,
  })
  if (replaced !== undefined) {
    emit(state, replaced)
    count(state, 'promise_broken')
  }
  emit(state, {
    type: 'sealed',
    number: block.handle.number,
    hash: block.hash,
    flashblocks: flashblockCount(block),
    transactions: executed.length,
    gasUsed: block.header.gasUsed,
    ms: block.executeMs,
  })
  if (state.options.isLazy === true && content !== undefined) check(state, block, content.diff)
}

/** Counts the block's flashblocks, without a remainder that its canonical block brought. */
function flashblockCount({ isFullBlock, index, partialHeaders }: LiveBlock): number {
  if (isFullBlock) return 0
  return index === FULL_BLOCK_INDEX ? partialHeaders.length - 1 : index + 1
}

/**
 * Reports visible flashblocks at this height and above unless the block continues them. The call
 * must precede canonical's move.
 */
function replacedBy(
  { chain }: WriterState,
  block: LiveBlock,
): Extract<WriterEffect, { readonly type: 'replaced' }> | undefined {
  const promised = block.isFullBlock ? chain.speculative(block.handle.number) : undefined
  if (promised === undefined) return undefined
  const retained = hashesOf(block)
  const names = new Set(retained.map(bytesToHex))
  const lost = chain
    .above(chain.canonical)
    .flatMap(hashesOf)
    .filter((hash) => !names.has(bytesToHex(hash)))
  const isRebasing =
    lost.length === 0 &&
    (promised.state !== 'complete' || equalBytes(promised.hash, block.hash)) &&
    hashesOf(promised).every((hash, at) => bytesToHex(hash) === bytesToHex(retained[at]!))
  const { hash: canonical, handle } = block
  return isRebasing
    ? undefined
    : { type: 'replaced', number: handle.number, promised: promised.hash, canonical, lost }
}

/**
 * Returns hashes of signed transactions, because every block at a height has its deposits again.
 */
const hashesOf = ({ open, content }: LiveBlock): readonly Bytes[] =>
  (open?.execution.executed ?? content?.executed ?? [])
    .filter(({ transaction }) => isSigned(transaction))
    .map(({ transaction }) => transaction.hash)

function check(state: WriterState, { handle, hash }: LiveBlock, diff: StateDiff): void {
  const { limits, options } = state
  const all = diff.flatMap(keysOf)
  const keys: CheckedKey[] = []
  // The multiplier is odd, so neighbouring blocks check different keys.
  let seed = Math.imul((options.seed ?? 0) + handle.number, 0x9e37_79b1) >>> 0
  while (keys.length < limits.checkedKeys && all.length > 0) {
    keys.push(...all.splice(seed % all.length, 1))
    seed = Math.imul(seed, 0x0019_660d) >>> 0
  }
  if (keys.length > 0) emit(state, { type: 'check', number: handle.number, hash, keys })
}

function keysOf({ address, after, slots }: StateDiff[number]): readonly CheckedKey[] {
  const value = after && encodeAccount(after)
  return [
    { key: { kind: 'account', address }, value },
    ...slots.map(({ key, after: word }) => ({
      key: { kind: 'slot', address, key } as const,
      value: word.every((byte) => byte === 0) ? undefined : word,
    })),
  ]
}
