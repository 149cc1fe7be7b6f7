/** What feeds send, from its arrival to its execution: judged, held until it can be executed, taken up again. */
import { judgeEnd, judgeFlashblock, type Sequence } from '../../flashblocks/sequence.ts'
import type { FeedMessage, FlashblockBase } from '../../flashblocks/types.ts'
import { MissingError } from '../../state/reader.ts'
import { dropsIn, noteEnd, receive } from './feeds.ts'
import { begin, endIfComplete, extend, type FlashblockPacket, snake } from './flashblocks.ts'
import type { LiveBlock } from './live-block.ts'
import { tellDoubt } from './promised.ts'
import type { Received, Shelf } from './shelf.ts'
import {
  count,
  emit,
  heightsOf,
  isReplaced,
  type Wait,
  type WriterState,
  wakeAt,
  warn,
} from './state.ts'
import type { FeedPacket } from './types.ts'
import { ask } from './waits.ts'

/** @throws {ViewError} when the state under the block is gone */
export async function onPacket(state: WriterState, received: FeedPacket): Promise<void> {
  const packet = receive(state, received)
  if (!isWaiting(state) && state.lane.size === 0) return judge(state, packet)
  keep(state, state.lane, packet)
}

/** Whatever waits and can go on. False: nothing can. @throws {ViewError} */
export async function resumePackets(state: WriterState): Promise<boolean> {
  return (
    (await resumeLane(state)) ||
    (await resumeEarly(state)) ||
    (await resumeHeld(state)) ||
    (await resumeRivals(state))
  )
}

/** The state that a flashblock waits for is there, or will not come. @throws {ViewError} */
export async function onPacketFetched(
  state: WriterState,
  wait: Wait<Received>,
  failed: string | undefined,
): Promise<void> {
  state.packetWait = undefined
  if (failed === undefined) return judge(state, wait.event, wait)
  warn(state, 'feed_unfetched', `state for a flashblock cannot be fetched: ${failed}`)
}

/** Index 0 of a payload, held, that stands on the block of this height. */
export function heldOn(state: WriterState, number: number): readonly FlashblockPacket[] {
  return state.held.packets.filter(
    (packet): packet is FlashblockPacket => baseOf(packet)?.blockNumber === BigInt(number) + 1n,
  )
}

async function judge(state: WriterState, packet: Received, before?: Wait<Received>): Promise<void> {
  const { message } = packet
  if (isBehindHeld(state, message)) return hold(state, packet)
  if (message.type === 'end') return onEnd(state, packet)
  if (state.wrongDigests.includes(packet.digest)) return count(state, 'feed_wrong_again')
  const flashblock = { ...packet, message }
  const { verdict, sequence } = judgeFlashblock(state.sequence, message, heightsOf(state))
  if (verdict === 'missingFirst' && state.rivals.has(message.payloadId))
    return keep(state, state.rivals, packet)
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
        keep(state, state.early, packet)
        break
      case 'equivocation':
        warnTwoFaces(state, flashblock)
        tellDoubt(state)
        break
    }
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    const event = { event: packet, before }
    state.packetWait = ask(state, event, { missing: error, purpose: 'flashblock' })
    if (state.packetWait !== undefined) return
    warn(state, 'feed_unfetched', `state for a flashblock is not at hand: ${error.what}`)
  }
  count(state, `feed_${snake(verdict)}`)
}

/** What follows a held index 0. An index 0 itself may be another one: it is judged. */
const isBehindHeld = ({ held, sequence }: WriterState, message: FeedMessage): boolean =>
  held.has(message.payloadId) &&
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
    hold(state, packet)
    return
  }
  const waitMs = waitAbove(state, parent, packet.feed)
  if (waitMs > 0) {
    keep(state, state.rivals, packet)
    wakeAt(state, state.options.now() + waitMs)
    return
  }
  const { payloadId } = packet.message
  await begin(state, packet, { parent, sequence })
  // What another feed has sent of it before goes on from here.
  const others = state.rivals.take(({ message }) => message.payloadId === payloadId)
  for (const other of others) await again(state, other)
}

const isWaiting = ({ packetWait }: WriterState): boolean => packetWait !== undefined

/** After one that waits for state the others wait. */
const again = async (state: WriterState, packet: Received): Promise<void> =>
  isWaiting(state) ? keep(state, state.lane, packet) : judge(state, packet)

/** Milliseconds until this feed may drop what stands on a block. */
const waitAbove = (state: WriterState, parent: LiveBlock, feed: number): number =>
  Math.max(0, ...state.chain.above(parent).map((block) => dropsIn(state, block, feed)))

async function onEnd(state: WriterState, packet: Received): Promise<void> {
  const { message, sent } = packet
  if (message.type !== 'end') return
  if (state.rivals.has(message.payloadId)) return keep(state, state.rivals, packet)
  const { verdict, sequence } = judgeEnd(state.sequence, message, { sent })
  count(state, `feed_${snake(verdict)}`)
  state.sequence = sequence
  noteEnd(state, packet, TRUE_ENDS.has(verdict))
  if (verdict === 'loneEnd') state.loneEnd = message.payloadId
  await endIfComplete(state)
}

/** Verdicts on an End that nothing has to follow. After index 0 alone it says as little to who follows. */
const TRUE_ENDS: ReadonlySet<string> = new Set(['complete', 'alreadyComplete', 'loneEnd'])

/** A finished block on the pending chain that a base stands on. */
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
async function resumeLane(state: WriterState): Promise<boolean> {
  const { packetWait: wait, options } = state
  if (wait !== undefined) {
    const isLate = options.now() >= wait.untilMs
    if (!isLate && isOfUse(state, wait.event)) return wakeFor(state, wait.untilMs)
    count(state, isLate ? 'feed_unfetched' : 'feed_stale')
    state.packetWait = undefined
  }
  const next = state.lane.shift()
  if (next !== undefined) await judge(state, next)
  return next !== undefined
}

/** Whether a flashblock that waits would still be executed. */
function isOfUse(state: WriterState, { message }: Received): boolean {
  if (message.type === 'end') return false
  return message.base === undefined
    ? message.payloadId === state.sequence.payload?.payloadId
    : message.base.blockNumber > heightsOf(state).canonical
}

/** Flashblocks that overtook others, when those have come. */
async function resumeEarly(state: WriterState): Promise<boolean> {
  const { early, sequence, options, limits } = state
  const { payload } = sequence
  const isOfPayload = ({ message }: Received) => message.payloadId === payload?.payloadId
  const due = payload?.taken.length ?? -1
  // Others were taken meanwhile, of this payload or of the next one.
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
  if (state.toldGap === gap) return false
  const untilMs = state.gapSinceMs + limits.cadenceMs
  if (options.now() < untilMs) return wakeFor(state, untilMs)
  state.toldGap = gap
  warn(state, 'feed_gap', `payload ${payload?.payloadId}: index ${due} has not come`)
  return false
}

/** Held packets whose parent has become known are taken up again; those of lower blocks are of no use any more. */
async function resumeHeld(state: WriterState): Promise<boolean> {
  const { held, chain } = state
  if (held.size === 0 || isWaiting(state)) return false
  const bases = held.packets.flatMap(({ message }) =>
    message.type === 'flashblock' && message.base !== undefined
      ? [{ payloadId: message.payloadId, base: message.base }]
      : [],
  )
  const ready = bases.filter(({ base }) => parentOf(state, base) !== undefined)
  const canonical = BigInt(chain.canonical.handle.number)
  const least = ready.reduce(
    (most, { base }) => (base.blockNumber > most ? base.blockNumber : most),
    canonical + 1n,
  )
  const over = bases.flatMap(({ payloadId, base }) => (base.blockNumber < least ? [payloadId] : []))
  const dropped = held.take(({ message }) => over.includes(message.payloadId)).length
  if (dropped > 0) count(state, 'feed_skipped', dropped)
  if (ready.length === 0) return dropped > 0
  for (const packet of held.take(() => true)) await again(state, packet)
  return true
}

/** Payloads that had to wait for the feed that brought another one: it is silent now, or lost. */
async function resumeRivals(state: WriterState): Promise<boolean> {
  const { rivals } = state
  if (rivals.size === 0 || isWaiting(state)) return false
  let wakeMs = Number.POSITIVE_INFINITY
  const useless: string[] = []
  for (const packet of rivals.packets) {
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
      const own = rivals.take(({ message }) => message.payloadId === payloadId)
      for (const each of own) await again(state, each)
      return true
    }
    wakeMs = Math.min(wakeMs, waitMs)
  }
  const dropped = rivals.take(({ message }) => useless.includes(message.payloadId)).length
  if (dropped > 0) count(state, 'feed_skipped', dropped)
  if (rivals.size > 0) wakeAt(state, state.options.now() + wakeMs)
  return false
}

function wakeFor(state: WriterState, ms: number): false {
  wakeAt(state, ms)
  return false
}

function hold(state: WriterState, packet: Received): void {
  keep(state, state.held, packet)
  count(state, 'feed_held')
}

function keep(state: WriterState, shelf: Shelf, packet: Received): void {
  const { isCopy, dropped } = shelf.add(packet)
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
