/**
 * Packets of feeds from arrival to execution: judged, buffered until they can be executed, and
 * resumed.
 */
import { judgeEnd, judgeFlashblock, type Sequence } from '../../flashblocks/sequence.ts'
import type { FeedMessage, FlashblockBase } from '../../flashblocks/types.ts'
import { MissingError } from '../../state/reader.ts'
import { dropsIn, receive, recordEnd } from './feeds.ts'
import {
  endIfComplete,
  extend,
  type FlashblockPacket,
  start,
  toUnderscores,
} from './flashblocks.ts'
import type { LiveBlock } from './live-block.ts'
import { reportSuspicion } from './promised.ts'
import type { Received, ReorderBuffer } from './reorder-buffer.ts'
import type { FeedPacket } from './types.ts'
import { requestState } from './waits.ts'
import {
  count,
  emit,
  heightsOf,
  isReplaced,
  type Wait,
  type WriterState,
  wakeAt,
  warn,
} from './writer-state.ts'

/** @throws {ViewError} when the state under the block is gone */
export async function onPacket(state: WriterState, received: FeedPacket): Promise<void> {
  const packet = receive(state, received)
  if (!isWaiting(state) && state.blocked.size === 0) return judge(state, packet)
  addToBuffer(state, state.blocked, packet)
}

/**
 * Resumes one packet that waits, if possible.
 * @returns false when nothing can be resumed
 * @throws {ViewError}
 */
export async function resumePackets(state: WriterState): Promise<boolean> {
  return (
    (await resumeBlocked(state)) ||
    (await resumeEarly(state)) ||
    (await resumeBuffered(state)) ||
    (await resumeCompeting(state))
  )
}

/**
 * Resumes the flashblock whose state arrived, or drops it.
 * @throws {ViewError}
 */
export async function onPacketFetched(
  state: WriterState,
  wait: Wait<Received>,
  failed: string | undefined,
): Promise<void> {
  state.packetWait = undefined
  if (failed === undefined) return judge(state, wait.event, wait)
  warn(state, 'feed_unfetched', `state for a flashblock cannot be fetched: ${failed}`)
}

/** Returns buffered index 0 packets that stand on the block of this height. */
export function bufferedOn(state: WriterState, number: number): readonly FlashblockPacket[] {
  return state.buffered.packets.filter(
    (packet): packet is FlashblockPacket => baseOf(packet)?.blockNumber === BigInt(number) + 1n,
  )
}

async function judge(state: WriterState, packet: Received, before?: Wait<Received>): Promise<void> {
  const { message } = packet
  if (isBelowBuffered(state, message)) return buffer(state, packet)
  if (message.type === 'end') return onEnd(state, packet)
  if (state.wrongDigests.includes(packet.digest)) return count(state, 'feed_wrong_again')
  const flashblock = { ...packet, message }
  const { verdict, sequence } = judgeFlashblock(state.sequence, message, heightsOf(state))
  if (verdict === 'missingFirst' && state.competing.has(message.payloadId))
    return addToBuffer(state, state.competing, packet)
  try {
    switch (verdict) {
      case 'next':
        await extend(state, flashblock, sequence)
        break
      case 'first':
      case 'firstOfNextBlock':
      case 'secondPayload':
      case 'ahead':
        await onIndexZero(state, flashblock, sequence)
        break
      case 'early':
        addToBuffer(state, state.early, packet)
        break
      case 'equivocation':
        warnTwoFaces(state, flashblock)
        reportSuspicion(state)
        break
    }
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    const event = { event: packet, before }
    state.packetWait = requestState(state, event, { missing: error, purpose: 'flashblock' })
    if (state.packetWait !== undefined) return
    warn(state, 'feed_unfetched', `state for a flashblock is not at hand: ${error.what}`)
  }
  count(state, `feed_${toUnderscores(verdict)}`)
}

/**
 * Whether a packet follows a buffered index 0. Another index 0 of the payload is judged instead.
 */
const isBelowBuffered = ({ buffered, sequence }: WriterState, message: FeedMessage): boolean =>
  buffered.has(message.payloadId) &&
  sequence.payload?.payloadId !== message.payloadId &&
  (message.type === 'end' || message.base === undefined)

async function onIndexZero(
  state: WriterState,
  packet: FlashblockPacket,
  sequence: Sequence,
): Promise<void> {
  const { chain, limits } = state
  const { base } = packet.message
  if (base === undefined) return
  if (chain.complete.handle.number - chain.canonical.handle.number >= limits.ahead) {
    if (state.failure !== undefined)
      emit(state, { type: 'halted', message: state.failure, isFatal: true })
    count(state, 'feed_too_far_ahead')
    return
  }
  const parent = parentOf(state, base)
  if (parent === undefined) {
    buffer(state, packet)
    return
  }
  const waitMs = waitAbove(state, parent, packet.feed)
  if (waitMs > 0) {
    addToBuffer(state, state.competing, packet)
    wakeAt(state, state.options.now() + waitMs)
    return
  }
  const { payloadId } = packet.message
  await start(state, packet, { parent, sequence })
  // Flashblocks of the payload from other feeds continue here.
  const others = state.competing.take(({ message }) => message.payloadId === payloadId)
  for (const other of others) await reapply(state, other)
}

const isWaiting = ({ packetWait }: WriterState): boolean => packetWait !== undefined

/** Judges a packet, or blocks it behind the packet that waits for state. */
const reapply = async (state: WriterState, packet: Received): Promise<void> =>
  isWaiting(state) ? addToBuffer(state, state.blocked, packet) : judge(state, packet)

/** Returns milliseconds until this feed may drop the blocks above a parent. */
const waitAbove = (state: WriterState, parent: LiveBlock, feed: number): number =>
  Math.max(0, ...state.chain.above(parent).map((block) => dropsIn(state, block, feed)))

async function onEnd(state: WriterState, packet: Received): Promise<void> {
  const { message, sent } = packet
  if (message.type !== 'end') return
  if (state.competing.has(message.payloadId)) return addToBuffer(state, state.competing, packet)
  const { verdict, sequence } = judgeEnd(state.sequence, message, { sent })
  count(state, `feed_${toUnderscores(verdict)}`)
  state.sequence = sequence
  recordEnd(state, packet, TRUE_ENDS.has(verdict))
  if (verdict === 'loneEnd') state.loneEnd = message.payloadId
  await endIfComplete(state)
}

/**
 * Verdicts on an End that needs no more flashblocks. A lone End counts, because followers learn as
 * little from it as we do.
 */
const TRUE_ENDS: ReadonlySet<string> = new Set(['complete', 'alreadyComplete', 'loneEnd'])

/** Returns the finished block on the pending chain that a base stands on. */
function parentOf(state: WriterState, base: FlashblockBase): LiveBlock | undefined {
  const { chain } = state
  const parent = chain.finished(base.parentHash)
  const isUsable =
    parent !== undefined &&
    BigInt(parent.handle.number) + 1n === base.blockNumber &&
    parent.handle.number >= chain.canonical.handle.number &&
    chain.isAncestor(parent, chain.pending) &&
    !isReplaced(state, parent)
  return isUsable ? parent : undefined
}

/** Judges the packets that arrived while an earlier flashblock waited for state. */
async function resumeBlocked(state: WriterState): Promise<boolean> {
  const { packetWait: wait, options } = state
  if (wait !== undefined) {
    const isLate = options.now() >= wait.untilMs
    if (!isLate && isOfUse(state, wait.event)) return wakeFor(state, wait.untilMs)
    count(state, isLate ? 'feed_unfetched' : 'feed_stale')
    state.packetWait = undefined
  }
  const next = state.blocked.shift()
  if (next !== undefined) await judge(state, next)
  return next !== undefined
}

function isOfUse(state: WriterState, { message }: Received): boolean {
  if (message.type === 'end') return false
  return message.base === undefined
    ? message.payloadId === state.sequence.payload?.payloadId
    : message.base.blockNumber > heightsOf(state).canonical
}

/** Resumes flashblocks that arrived before an earlier index. */
async function resumeEarly(state: WriterState): Promise<boolean> {
  const { early, sequence, options, limits } = state
  const { payload } = sequence
  const isOfPayload = ({ message }: Received) => message.payloadId === payload?.payloadId
  const due = payload?.taken.length ?? -1
  // The sequence may have advanced past these packets, or to the next payload.
  early.take((packet) => !isOfPayload(packet) || indexOf(packet) < due)
  if (early.size === 0) {
    state.gapSinceMs = undefined
    return false
  }
  const [next] = early.packets.filter((packet) => indexOf(packet) === due)
  if (next !== undefined && !isWaiting(state)) {
    state.gapSinceMs = undefined
    early.take((packet) => packet === next)
    await judge(state, next)
    return true
  }
  state.gapSinceMs ??= options.now()
  const gap = `${payload?.payloadId} ${due}`
  if (state.reportedGap === gap) return false
  const untilMs = state.gapSinceMs + limits.cadenceMs
  if (options.now() < untilMs) return wakeFor(state, untilMs)
  state.reportedGap = gap
  warn(state, 'feed_gap', `payload ${payload?.payloadId}: index ${due} has not come`)
  return false
}

/** Resumes buffered packets whose parent is now known, and drops those of lower blocks. */
async function resumeBuffered(state: WriterState): Promise<boolean> {
  const { buffered, chain } = state
  if (buffered.size === 0 || isWaiting(state)) return false
  const bases = buffered.packets.flatMap(({ message }) =>
    message.type === 'flashblock' && message.base !== undefined
      ? [{ payloadId: message.payloadId, base: message.base }]
      : [],
  )
  const ready = bases.filter(({ base }) => parentOf(state, base) !== undefined)
  const canonical = BigInt(chain.canonical.handle.number)
  const highestBase = ready.reduce(
    (highest, { base }) => (base.blockNumber > highest ? base.blockNumber : highest),
    canonical + 1n,
  )
  const over = bases.flatMap(({ payloadId, base }) =>
    base.blockNumber < highestBase ? [payloadId] : [],
  )
  const dropped = buffered.take(({ message }) => over.includes(message.payloadId)).length
  if (dropped > 0) count(state, 'feed_skipped', dropped)
  if (ready.length === 0) return dropped > 0
  for (const packet of buffered.take(() => true)) await reapply(state, packet)
  return true
}

/** Resumes competing payloads once the feed of the current payload is silent or lost. */
async function resumeCompeting(state: WriterState): Promise<boolean> {
  const { competing } = state
  if (competing.size === 0 || isWaiting(state)) return false
  let wakeMs = Number.POSITIVE_INFINITY
  const useless: string[] = []
  for (const packet of competing.packets) {
    const base = baseOf(packet)
    if (base === undefined) continue
    const { payloadId } = packet.message
    const parent = parentOf(state, base)
    if (parent === undefined || base.blockNumber <= heightsOf(state).canonical) {
      useless.push(payloadId)
      continue
    }
    const waitMs = waitAbove(state, parent, packet.feed)
    if (waitMs <= 0) {
      const own = competing.take(({ message }) => message.payloadId === payloadId)
      for (const each of own) await reapply(state, each)
      return true
    }
    wakeMs = Math.min(wakeMs, waitMs)
  }
  const dropped = competing.take(({ message }) => useless.includes(message.payloadId)).length
  if (dropped > 0) count(state, 'feed_skipped', dropped)
  if (competing.size > 0) wakeAt(state, state.options.now() + wakeMs)
  return false
}

function wakeFor(state: WriterState, ms: number): false {
  wakeAt(state, ms)
  return false
}

function buffer(state: WriterState, packet: Received): void {
  addToBuffer(state, state.buffered, packet)
  count(state, 'feed_held')
}

function addToBuffer(state: WriterState, buffer: ReorderBuffer, packet: Received): void {
  const { isCopy, dropped } = buffer.add(packet)
  if (isCopy) count(state, 'feed_duplicate')
  if (dropped > 0) count(state, 'feed_skipped', dropped)
}

function warnTwoFaces(state: WriterState, { message }: FlashblockPacket): void {
  warn(
    state,
    'feed_two_faces',
    `payload ${message.payloadId}: another flashblock of index ${message.index}; the first is kept`,
  )
}

const baseOf = ({ message }: Received): FlashblockBase | undefined =>
  message.type === 'flashblock' ? message.base : undefined

const indexOf = ({ message }: Received): number =>
  message.type === 'flashblock' ? message.index : -1
