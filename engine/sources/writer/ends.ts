/**
 * The final hash of a block comes from the persistence thread's root. Without a trie, the next
 * block's base gives it.
 */
import { dropPayload } from '../../flashblocks/sequence.ts'
import { decodeHeader, type Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import { dropsIn, runOf } from './feeds.ts'
import type { FlashblockPacket } from './flashblocks.ts'
import { headerOf, type LiveBlock, step } from './live-block.ts'
import { bufferedOn } from './packets.ts'
import { addPostExec, close, hasPostExec, partsOf, requestRoot } from './steps.ts'
import { noMemory, submitForPersistence } from './submit.ts'
import { count, isReplaced, publish, type WriterState, wakeAt, warn } from './writer-state.ts'

type Roots = { readonly stateRoot: LiveBlock['hash']; readonly withdrawalsRoot: LiveBlock['hash'] }

/**
 * Ends the pending block when a buffered index 0 stands on it, because that base names its final
 * hash.
 * @returns false when nothing has changed
 */
export async function nameEnd(state: WriterState): Promise<boolean> {
  const { pending } = state.chain
  if ((pending.state !== 'open' && pending.state !== 'ended') || isReplaced(state, pending))
    return false
  const names = bufferedOn(state, pending.handle.number)
  if (names.length === 0) return false
  if (state.options.isLazy === true) return nameByWord(state, pending, names)
  if (pending.state === 'ended') return false
  if (pending.prefix?.index === pending.index) return nameByRoot(state, pending, names)
  // The block stays open until its root gives this hash, because another feed may bring missing
  // flashblocks.
  if (pending.rootIndex !== pending.index) requestRoot(state, pending)
  return false
}

/**
 * Takes the persistence thread's roots of a block. The roots finish an ended block; of an open
 * block they become the prefix.
 */
export function onRoot(state: WriterState, block: LiveBlock, roots: Roots): void {
  block.rootsDue--
  // These roots miss the newest transactions, so another response follows or will be requested.
  if (block.rootsDue > 0 || block.rootIndex !== block.index) return
  const named = headerOf(partsOf(block), roots)
  if (block.state === 'ended') finish(state, block, named)
  else recordPrefix(state, block, named)
}

function recordPrefix(
  state: WriterState,
  block: LiveBlock,
  named: { readonly header: Header; readonly hash: LiveBlock['hash'] },
): void {
  block.prefix = { ...named, index: block.index }
  const names = bufferedOn(state, block.handle.number)
  // Without its post-exec transaction the prefix differs from the whole block.
  if (names.length > 0 && !hasPostExec(block) && !isNamed(named.hash, names))
    warnOfParent(state, block, { hash: named.hash, names })
}

/** Ends the block when its root gives the hash that an index 0 of any feed names. */
async function nameByRoot(
  state: WriterState,
  block: LiveBlock,
  names: readonly FlashblockPacket[],
): Promise<boolean> {
  const { prefix } = block
  if (prefix === undefined) return false
  // A post-exec transaction does not change state, so the root is the same with it.
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

/** Writes the final header and hash to the diff layer. */
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
  if (block.isFullBlock) submitForPersistence(state, block, block.canonicalBlock!)
  else {
    state.chain.complete = block
    publish(state)
  }
}

/**
 * Ends the block by an index 0 that no root can confirm. Only a block that cannot miss a flashblock
 * is ended, and first by its own feed.
 */
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
    // The canonical block will give the state root.
    const roots = { stateRoot: ZERO_32, withdrawalsRoot: block.header.withdrawalsRoot }
    const { header } = headerOf(partsOf(block), roots)
    finish(state, block, { header, hash: packet.message.base!.parentHash })
    return true
  }
  return false
}

/**
 * An index 0 with a wrong height names an ancestor of this block. With two blocks under one hash,
 * readers could open the wrong state.
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

/**
 * Whether the packet's feed has sent exactly our flashblocks. The check serves feeds without Ends,
 * and Ends after index 0.
 */
function isAllThere(state: WriterState, block: LiveBlock, packet: FlashblockPacket): boolean {
  const { payload } = state.sequence
  const { before } = packet
  return (
    block.state === 'open' &&
    payload?.payloadId === block.payloadId &&
    payload?.targetIndex === 0 &&
    state.early.size === 0 &&
    !state.blocked.has(payload.payloadId) &&
    !state.buffered.has(payload.payloadId) &&
    before?.payloadId === block.payloadId &&
    before?.hasHole === false &&
    before.inRow === payload.taken.length &&
    (state.loneEnd === block.payloadId ||
      before.areSubblocks ||
      !runOf(state, packet.feed).announcesEnds)
  )
}

async function closeNamed(state: WriterState, block: LiveBlock): Promise<void> {
  // Further flashblocks of the block are too late.
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
