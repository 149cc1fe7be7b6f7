/** The feed's side of the writer: flashblocks are judged, held, executed, checked and published. */

import {
  dropPayload,
  judgeEnd,
  judgeFlashblock,
  type Sequence,
} from '../../flashblocks/sequence.ts'
import type { Flashblock, FlashblockBase } from '../../flashblocks/types.ts'
import { encodeHeader } from '../../primitives/header-codec.ts'
import { attributesOf } from '../base-attributes.ts'
import {
  checkAttributes,
  checkDelta,
  checkFirstTransaction,
  differ,
  type Mismatch,
} from './checks.ts'
import {
  contentOf,
  executeAll,
  headerOf,
  type LiveBlock,
  newBlock,
  openExecution,
  step,
} from './live-block.ts'
import {
  count,
  emit,
  flush,
  freeMemory,
  heightsOf,
  publish,
  type WriterState,
  warn,
} from './state.ts'
import type { FeedPacket } from './types.ts'

type FlashblockPacket = FeedPacket & { readonly message: Flashblock }

/** @throws {ViewError} when the state under the block is gone */
export async function onPacket(state: WriterState, packet: FeedPacket): Promise<void> {
  const { message } = packet
  if (isHeld(state, message.payloadId)) return hold(state, packet)
  if (message.type === 'end') return onEnd(state, packet)
  const incoming = { flashblock: message, digest: packet.digest }
  const { verdict, sequence } = judgeFlashblock(state.sequence, incoming, heightsOf(state))
  count(state, `feed_${snake(verdict)}`)
  switch (verdict) {
    case 'next':
      state.sequence = sequence
      return extend(state, { ...packet, message })
    case 'first':
    case 'firstOfNextBlock':
    case 'secondPayload':
    case 'ahead':
      return onIndexZero(state, { ...packet, message }, { isAhead: verdict === 'ahead', sequence })
    case 'gap':
      warn(
        state,
        'feed_lost',
        `payload ${message.payloadId}: index ${message.index} after ${state.chain.pending.index}`,
      )
      return flush(state)
    case 'equivocation':
      return warn(
        state,
        'feed_two_faces',
        `payload ${message.payloadId}: another flashblock of index ${message.index}; the first is kept`,
      )
    case 'missingFirst':
      state.headless = message.payloadId
      return
    default:
      return
  }
}

/** Held packets whose parent has become known are taken up again; packets before the newest of those are of no use any more. */
export async function resumeHeld(state: WriterState): Promise<boolean> {
  const { held, chain } = state
  const isOld = ({ message }: FeedPacket) =>
    message.type === 'flashblock' &&
    message.base !== undefined &&
    message.base.blockNumber <= BigInt(chain.canonical.handle.number)
  const start = held.findLastIndex(
    ({ message }) =>
      message.type === 'flashblock' &&
      message.base !== undefined &&
      parentOf(state, message.base) !== undefined,
  )
  if (start < 0) {
    if (held.length === 0 || !isOld(held[0]!)) return false
    dropHeld(state)
    return true
  }
  if (start > 0) count(state, 'feed_skipped', start)
  state.held = []
  for (const packet of held.slice(start)) await onPacket(state, packet)
  return true
}

/** All of the block's transactions are there: its root is the keeper's. */
export async function end(state: WriterState, block: LiveBlock): Promise<void> {
  await close(block)
  emit(state, { type: 'keeper', request: { type: 'root', id: block.handle.id } })
}

/** Execution is over: the parent's state is let go. */
export async function close(block: LiveBlock): Promise<void> {
  if (block.open === undefined) throw new Error(`block ${block.handle.number} is not open`)
  block.content = await contentOf(block.open.execution)
  block.open.release()
  block.open = undefined
  step(block, 'end')
}

/** A block that came to nothing before the chain knew of it. */
export function discard({ options }: WriterState, block: LiveBlock): void {
  step(block, 'drop')
  block.open?.release()
  options.publisher.drop(block.handle)
}

/** Newest part of an open block, all checks passed: into its table, and to the keeper's trie. 'full': nothing was changed. */
export function addIncrement(
  state: WriterState,
  block: LiveBlock,
  part: {
    readonly index: number
    readonly header: LiveBlock['header']
    readonly hash: LiveBlock['hash']
    readonly diff: Parameters<typeof state.options.publisher.add>[1]['diff']
    readonly from: number
  },
): 'added' | 'full' {
  const { execution } = block.open!
  const { index, header, hash, diff } = part
  const transactions = execution.executed.slice(part.from)
  const added = state.options.publisher.add(block.handle, {
    index,
    diff,
    header,
    hash,
    transactions,
  })
  if (added === 'full') return 'full'
  step(block, 'extend')
  block.header = header
  block.hash = hash
  block.index = index
  block.momentary.push({
    hash,
    header: encodeHeader(header),
    index,
    transactionCount: execution.executed.length,
  })
  const { id } = block.handle
  const { parent } = block
  const isDeep = parent!.handle.number < state.chain.base.handle.number
  if (!isDeep)
    emit(state, {
      type: 'keeper',
      request: { type: 'advance', id, parentId: parent!.handle.id, diff },
    })
  return 'added'
}

/** A finished block on the pending chain that a base stands on. */
function parentOf(state: WriterState, base: FlashblockBase): LiveBlock | undefined {
  const { chain } = state
  const parent = chain.finished(base.parentHash)
  const isUsable =
    parent !== undefined &&
    BigInt(parent.handle.number) + 1n === base.blockNumber &&
    parent.handle.number >= chain.canonical.handle.number &&
    chain.isAncestor(parent, chain.pending)
  return isUsable ? parent : undefined
}

async function onIndexZero(
  state: WriterState,
  packet: FlashblockPacket,
  judged: { readonly isAhead: boolean; readonly sequence: Sequence },
): Promise<void> {
  const { chain, limits } = state
  const { base } = packet.message
  if (base === undefined) return
  if (chain.complete.handle.number - chain.canonical.handle.number >= limits.ahead) {
    if (state.failure !== undefined)
      emit(state, { type: 'halted', message: state.failure, isFatal: true })
    return count(state, 'feed_too_far_ahead')
  }
  const parent = parentOf(state, base)
  if (parent === undefined) {
    if (chain.pending.state === 'open' || chain.pending.state === 'ended')
      await endBefore(state, base)
    // Between pending and this block others were lost.
    if (judged.isAhead && BigInt(chain.pending.handle.number) + 1n < base.blockNumber) flush(state)
    return hold(state, packet)
  }
  state.sequence = judged.sequence
  // Later flashblocks came before its first, so there may be more of them than come now.
  state.hasHole = packet.message.payloadId === state.headless
  await begin(state, packet, parent)
}

/** Index 0 of the next block says that the pending one is all there, and what its hash must be. */
async function endBefore(state: WriterState, base: FlashblockBase): Promise<void> {
  const { pending } = state.chain
  if (BigInt(pending.handle.number) + 1n !== base.blockNumber) return
  pending.expectedHash ??= base.parentHash
  if (pending.state !== 'open') return
  // What still comes of it comes too late.
  state.sequence = dropPayload(state.sequence)
  await end(state, pending)
}

async function onEnd(state: WriterState, packet: FeedPacket): Promise<void> {
  if (packet.message.type !== 'end') return
  const { verdict, sequence } = judgeEnd(state.sequence, packet.message)
  count(state, `feed_${snake(verdict)}`)
  const { payload } = state.sequence
  if (verdict !== 'complete' || payload === undefined) return
  // Its last flashblocks may be missing: then the next index 0 or the canonical block tells.
  const isShort = payload.taken.length <= payload.targetIndex
  if (isShort) count(state, 'feed_short')
  if (isShort || state.hasHole) return
  state.sequence = sequence
  const { pending } = state.chain
  if (pending.state === 'open') await end(state, pending)
}

async function begin(
  state: WriterState,
  packet: FlashblockPacket,
  parent: LiveBlock,
): Promise<void> {
  const { chain, publisher } = state.options
  const { message } = packet
  const startedMs = state.options.now()
  const attributes = attributesOf(message.base!)
  const wrong =
    (message.blockNumber === undefined
      ? undefined
      : differ('metadataNumber', attributes.number, message.blockNumber)) ??
    checkAttributes(chain, parent, attributes)
  if (wrong !== undefined) return giveUp(state, message, wrong)
  const open = await openExecution(state.options, parent.hash, attributes)
  const block = newBlock('begin', {
    handle: publisher.begin(parent.handle, message.payloadId),
    parent,
    payloadId: message.payloadId,
    header: parent.header,
    hash: parent.hash,
    open,
  })
  let failed: Mismatch | 'full' | undefined = 'full'
  try {
    failed = await executeFlashblock(state, block, { message, startedMs })
  } finally {
    if (failed !== undefined) discard(state, block)
  }
  if (failed !== undefined)
    return failed === 'full' ? freeMemory(state) : giveUp(state, message, failed)
  if (state.chain.pending !== parent) state.chain.cutAbove(parent)
  state.chain.add(block)
  state.chain.pending = block
  await show(state, block, { packet, startedMs, from: 0 })
}

async function extend(state: WriterState, packet: FlashblockPacket): Promise<void> {
  const { message } = packet
  const block = state.chain.pending
  if (block.state !== 'open' || block.payloadId !== message.payloadId)
    throw new Error(
      `flashblock ${message.index} of ${message.payloadId} is due, and pending is another block`,
    )
  const startedMs = state.options.now()
  const from = block.open!.execution.executed.length
  const failed = await executeFlashblock(state, block, { message, startedMs })
  if (failed === 'full') return freeMemory(state)
  if (failed !== undefined) return giveUp(state, message, failed)
  await show(state, block, { packet, startedMs, from })
}

/** Executes the new transactions, compares every sum, and only then the hash, which depends on all of them. */
async function executeFlashblock(
  state: WriterState,
  block: LiveBlock,
  { message, startedMs }: { readonly message: Flashblock; readonly startedMs: number },
): Promise<Mismatch | 'full' | undefined> {
  const { execution } = block.open!
  const { delta, index } = message
  const { attributes, rules } = execution
  const checkpoint = index === 0 ? undefined : execution.checkpoint()
  const from = execution.executed.length
  const { ahead } = execution
  const taken = state.expected.take(execution, delta.transactions)
  if (taken > 0) count(state, 'ahead_taken', taken)
  if (ahead > taken) count(state, 'ahead_undone', ahead - taken)
  const { senderOf } = state.expected
  const invalid = await executeAll(execution, delta.transactions, { from: taken, senderOf })
  if (invalid !== undefined) return invalid
  const sums = execution.sums()
  const wrong =
    (index === 0
      ? checkFirstTransaction(state.options.chain, attributes, execution.executed[0]?.transaction)
      : undefined) ?? checkDelta(sums, delta)
  if (wrong !== undefined) return wrong
  const { header, hash } = headerOf({ attributes, rules, sums }, delta)
  const wrongHash = differ('blockHash', hash, delta.blockHash)
  if (wrongHash !== undefined) return wrongHash
  const diff = await execution.diff(checkpoint)
  block.executeMs += state.options.now() - startedMs
  return addIncrement(state, block, { index, header, hash, diff, from }) === 'full'
    ? 'full'
    : undefined
}

async function show(
  state: WriterState,
  block: LiveBlock,
  {
    packet,
    startedMs,
    from,
  }: { readonly packet: FeedPacket; readonly startedMs: number; readonly from: number },
): Promise<void> {
  const executed = block.open!.execution.executed.slice(from)
  const now = state.options.now()
  const transactions = executed.map(({ transaction }) => transaction.hash)
  if (block.index > 0) state.expected.settle(transactions)
  publish(state, {
    transactions,
    publishMs: now - packet.receivedAtMs,
    executeMs: now - startedMs,
  })
  if (state.sequence.payload?.isComplete === true) await end(state, block)
}

/** The feed and our execution disagree: which of them is wrong, the canonical block will tell. */
function giveUp(state: WriterState, message: Flashblock, wrong: Mismatch): void {
  const { kind, ours, theirs } = wrong
  warn(
    state,
    `mismatch_${snake(kind)}`,
    `payload ${message.payloadId} index ${message.index}: ${kind} is ${ours} here, ${theirs} in the feed`,
  )
  flush(state)
}

const isHeld = (state: WriterState, payloadId: string) =>
  state.held.some(({ message }) => message.payloadId === payloadId)

function hold(state: WriterState, packet: FeedPacket): void {
  state.held.push(packet)
  count(state, 'feed_held')
  while (state.held.length > state.limits.heldPackets) dropHeld(state)
}

/** The oldest held payload goes. */
function dropHeld(state: WriterState): void {
  const first = state.held[0]?.message.payloadId
  const rest = state.held.filter(({ message }) => message.payloadId !== first)
  count(state, 'feed_skipped', state.held.length - rest.length)
  state.held = rest
}

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
