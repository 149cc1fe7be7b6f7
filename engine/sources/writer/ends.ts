/** How a block gets its final hash: from the keeper's root, or, where no trie is kept, from the next block's base. */
import { dropPayload } from '../../flashblocks/sequence.ts'
import type { Header } from '../../primitives/header.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import { dropsIn, runOf } from './feeds.ts'
import type { FlashblockPacket } from './flashblocks.ts'
import { handOver, noMemory } from './hand-over.ts'
import { headerOf, type LiveBlock, step } from './live-block.ts'
import { heldOn } from './packets.ts'
import { count, isReplaced, publish, type WriterState, wakeAt, warn } from './state.ts'
import { addPostExec, askRoot, close, hasPostExec, partsOf } from './steps.ts'

type Roots = { readonly stateRoot: LiveBlock['hash']; readonly withdrawalsRoot: LiveBlock['hash'] }

/** An index 0 that stands on the pending block says that this is all there, and what its hash must be. False: nothing has changed. */
export async function nameEnd(state: WriterState): Promise<boolean> {
  const { pending } = state.chain
  if ((pending.state !== 'open' && pending.state !== 'ended') || isReplaced(state, pending))
    return false
  const names = heldOn(state, pending.handle.number)
  if (names.length === 0) return false
  if (state.options.isLazy === true) return nameByWord(state, pending, names)
  if (pending.state === 'ended') return false
  if (pending.prefix?.index === pending.index) return nameByRoot(state, pending, names)
  // It stays open until its hash comes out: what it lacks may still come from another feed.
  if (pending.rootIndex !== pending.index) askRoot(state, pending)
  return false
}

/** The keeper's roots of a block's transactions. Its canonical block, when it has come, goes on from here. */
export function onRoot(state: WriterState, block: LiveBlock, roots: Roots): void {
  block.rootsDue--
  // Of fewer transactions than it has now: another answer follows, or is asked for.
  if (block.rootsDue > 0 || block.rootIndex !== block.index) return
  const named = headerOf(partsOf(block), roots)
  if (block.state === 'ended') finish(state, block, named)
  else notePrefix(state, block, named)
}

function notePrefix(
  state: WriterState,
  block: LiveBlock,
  named: { readonly header: Header; readonly hash: LiveBlock['hash'] },
): void {
  block.prefix = { ...named, index: block.index }
  const names = heldOn(state, block.handle.number)
  // With a post-exec transaction the prefix is not all of the block yet.
  if (names.length > 0 && !hasPostExec(block) && !isNamed(named.hash, names))
    warnOfParent(state, block, { hash: named.hash, names })
}

/** The root tells: whoever names it, the block is all there. */
async function nameByRoot(
  state: WriterState,
  block: LiveBlock,
  names: readonly FlashblockPacket[],
): Promise<boolean> {
  const { prefix } = block
  if (prefix === undefined) return false
  // A post-exec transaction changes nothing in the state: the root is the same with it.
  let named: Pick<LiveBlock, 'header' | 'hash'> = prefix
  const isRight = () => {
    named = headerOf(partsOf(block), rootsIn(prefix.header))
    return isNamed(named.hash, names)
  }
  if (hasPostExec(block) ? !(await addPostExec(state, block, isRight)) : !isRight()) return false
  await closeNamed(state, block)
  finish(state, block, named)
  return true
}

const rootsIn = ({ stateRoot, withdrawalsRoot }: Header): Roots => ({
  stateRoot,
  withdrawalsRoot: withdrawalsRoot ?? ZERO_32,
})

const isNamed = (hash: LiveBlock['hash'], names: readonly FlashblockPacket[]): boolean =>
  names.some(({ message }) => equalBytes(message.base!.parentHash, hash))

/** Final header and hash: into the table. */
export function finish(
  state: WriterState,
  block: LiveBlock,
  { header, hash }: { readonly header: Header; readonly hash: LiveBlock['hash'] },
): void {
  if (state.options.publisher.finish(block.handle, header, hash) === 'full') {
    noMemory(state, block)
    return
  }
  step(block, 'finish')
  block.header = header
  block.hash = hash
  if (block.isWhole) handOver(state, block, block.sealed!)
  else {
    state.chain.complete = block
    publish(state)
  }
}

/** No root tells whether the word is true: it is taken of whoever has sent the block, and only if nothing of it can be missing. */
async function nameByWord(
  state: WriterState,
  block: LiveBlock,
  names: readonly FlashblockPacket[],
): Promise<boolean> {
  for (const packet of names) {
    if (!block.isProven && !isAllThere(state, block, packet)) continue
    const isSender = packet.before?.payloadId === block.payloadId
    const waitMs = isSender ? 0 : dropsIn(state, block, packet.feed)
    if (waitMs > 0) {
      wakeAt(state, state.options.now() + waitMs)
      continue
    }
    if (isOfOtherHeight(state, block, packet.message.base!.parentHash)) continue
    if (block.state === 'open') {
      if (!(await addPostExec(state, block))) continue
      await closeNamed(state, block)
    }
    if (!block.isProven) count(state, 'parent_unproven')
    // Its state root is the canonical block's to say.
    const roots = { stateRoot: ZERO_32, withdrawalsRoot: block.header.withdrawalsRoot }
    const { header } = headerOf(partsOf(block), roots)
    finish(state, block, { header, hash: packet.message.base!.parentHash })
    return true
  }
  return false
}

/**
 * An index 0 whose height is wrong names an ancestor, not this block. With two blocks under one
 * hash, whoever opens a block on that hash would read the state of the wrong one.
 */
function isOfOtherHeight(
  { chain, options }: WriterState,
  { handle }: LiveBlock,
  hash: LiveBlock['hash'],
): boolean {
  const known = chain.finished(hash)
  if (known !== undefined) return known.handle.number !== handle.number
  const stored = options.store.header(hash)
  return stored !== undefined && Number(decodeHeader(stored).number) !== handle.number
}

/** Of a feed that tells no ends, or one after index 0: it has sent all that we have, and nothing else. */
function isAllThere(state: WriterState, block: LiveBlock, packet: FlashblockPacket): boolean {
  const { payload } = state.sequence
  const { before } = packet
  return (
    block.state === 'open' &&
    payload?.payloadId === block.payloadId &&
    payload?.targetIndex === 0 &&
    state.early.size === 0 &&
    !state.lane.has(payload.payloadId) &&
    before?.payloadId === block.payloadId &&
    before?.hasHole === false &&
    before.inRow === payload.taken.length &&
    (state.loneEnd === block.payloadId ||
      before.areSubblocks ||
      !runOf(state, packet.feed).tellsEnds)
  )
}

async function closeNamed(state: WriterState, block: LiveBlock): Promise<void> {
  // What still comes of it comes too late.
  state.sequence = dropPayload(state.sequence)
  state.early.clear()
  await close(state, block)
}

function warnOfParent(
  state: WriterState,
  { handle, rootIndex }: LiveBlock,
  {
    hash,
    names,
  }: { readonly hash: LiveBlock['hash']; readonly names: readonly FlashblockPacket[] },
): void {
  const theirs = bytesToHex(names[0]!.message.base!.parentHash)
  const message = `block ${handle.number} comes out as ${bytesToHex(hash)} after index ${rootIndex}, the next one stands on ${theirs}`
  warn(state, 'mismatch_next_parent', message)
}
