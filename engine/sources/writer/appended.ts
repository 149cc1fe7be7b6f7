/** The keeper has made a block durable: canonical, in the same record that drops what does not stand on it. */

import { dropPayload } from '../../flashblocks/sequence.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { isSigned } from '../../primitives/transaction.ts'
import { equalBytes } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'
import type { StateDiff } from '../../state/diff.ts'
import { WHOLE_INDEX } from '../../views/whole-index.ts'
import type { LiveBlock } from './live-block.ts'
import { step } from './live-block.ts'
import { count, emit, publish, type WriterState } from './state.ts'
import type { CheckedKey, WriterEffect } from './types.ts'

export function onAppended(state: WriterState, block: LiveBlock): void {
  const { chain } = state
  state.options.publisher.answered(block.handle)
  step(block, 'append')
  state.handed = undefined
  const replaced = replacedBy(state, block)
  const { pending } = chain
  const isExtended = chain.isAncestor(block, pending) || chain.isAncestor(pending, block)
  chain.moveCanonical(block)
  if (!isExtended) count(state, 'reconcile_replaced')
  if (pending !== chain.pending) state.sequence = dropPayload(state.sequence)
  if (block.isWhole) state.blocksWithoutFeed++
  const { content } = block
  const executed = content?.executed ?? []
  block.content = undefined
  publish(state, {
    transactions: block.isWhole ? executed.map(({ transaction }) => transaction.hash) : [],
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
    flashblocks: toldOf(block),
    transactions: executed.length,
    gasUsed: block.header.gasUsed,
    ms: block.executeMs,
  })
  if (state.options.isLazy === true && content !== undefined) check(state, block, content.diff)
}

/** Flashblocks that it had; a rest that its canonical block brought is none. */
function toldOf({ isWhole, index, momentary }: LiveBlock): number {
  if (isWhole) return 0
  return index === WHOLE_INDEX ? momentary.length - 1 : index + 1
}

/** What flashblocks had shown at its height and above, where that is not its beginning. Before canonical moves. */
function replacedBy(
  { chain }: WriterState,
  block: LiveBlock,
): Extract<WriterEffect, { readonly type: 'replaced' }> | undefined {
  const promised = block.isWhole ? chain.speculative(block.handle.number) : undefined
  if (promised === undefined) return undefined
  const kept = hashesOf(block)
  const names = new Set(kept.map(bytesToHex))
  const lost = chain
    .above(chain.canonical)
    .flatMap(hashesOf)
    .filter((hash) => !names.has(bytesToHex(hash)))
  const isBeginning =
    lost.length === 0 &&
    (promised.state !== 'complete' || equalBytes(promised.hash, block.hash)) &&
    hashesOf(promised).every((hash, at) => bytesToHex(hash) === bytesToHex(kept[at]!))
  const { hash: canonical, handle } = block
  return isBeginning
    ? undefined
    : { type: 'replaced', number: handle.number, promised: promised.hash, canonical, lost }
}

/** Those that somebody has sent: deposits come again. */
const hashesOf = ({ open, content }: LiveBlock): readonly Bytes[] =>
  (open?.execution.executed ?? content?.executed ?? [])
    .filter(({ transaction }) => isSigned(transaction))
    .map(({ transaction }) => transaction.hash)

function check(state: WriterState, { handle, hash }: LiveBlock, diff: StateDiff): void {
  const { limits, options } = state
  const all = diff.flatMap(keysOf)
  const keys: CheckedKey[] = []
  // Multiplied by an odd number: neighbours take others.
  let place = Math.imul((options.seed ?? 0) + handle.number, 0x9e37_79b1) >>> 0
  while (keys.length < limits.checkedKeys && all.length > 0) {
    keys.push(...all.splice(place % all.length, 1))
    place = Math.imul(place, 0x0019_660d) >>> 0
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
