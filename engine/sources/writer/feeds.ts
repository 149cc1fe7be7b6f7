/**
 * What each feed has sent, what one of them may do to what another one has sent, and what goes on to those who follow this node: frames that
 * were judged, as they came, in the order in which they are shown.
 */
import { isSubblock } from '../../flashblocks/identity.ts'
import type { LiveBlock } from './live-block.ts'
import type { FeedRun, Received } from './shelf.ts'
import { emit, type WriterState } from './state.ts'
import type { FeedPacket } from './types.ts'

/** Flashblocks of a feed that are known again when they come twice. */
const MAX_DIGESTS = 64

/** Notes what has come. A packet that waits is judged by what its feed had sent then. */
export function receive(state: WriterState, packet: FeedPacket): Received {
  const run = runOf(state, packet.feed)
  const { message } = packet
  const { payload } = run
  const isSame = payload?.payloadId === message.payloadId
  if (message.type === 'end') {
    run.tellsEnds = true
    const isWhole = isSame && !payload.hasHole && payload.inRow > 0
    return { ...packet, sent: isWhole ? payload.inRow : undefined }
  }
  const { payloadId, index, base, blockNumber } = message
  const { inRow, hasHole, areSubblocks } = isSame ? payload : NOTHING_SENT
  const height = base?.blockNumber ?? blockNumber
  if (message.targetIndex > 0) run.tellsEnds = true
  const isOld = height !== undefined && height <= BigInt(state.chain.canonical.handle.number)
  if (!isOld) noteNews(run, { digest: packet.digest, nowMs: state.options.now() })
  run.payload = {
    payloadId,
    inRow: index === inRow ? inRow + 1 : inRow,
    hasHole: hasHole || index > inRow,
    areSubblocks: areSubblocks && isSubblock(message),
  }
  return base === undefined || isSame ? packet : { ...packet, before: payload }
}

const NOTHING_SENT = { inRow: 0, hasHole: false, areSubblocks: true }

/** A flashblock is news by its bytes: its index may have come before in a wrong one. */
function noteNews(
  run: FeedRun,
  { digest, nowMs }: { readonly digest: bigint; readonly nowMs: number },
): void {
  if (run.digests.includes(digest)) return
  run.newsAtMs = nowMs
  run.digests.push(digest)
  if (run.digests.length > MAX_DIGESTS) run.digests.shift()
}

/** @param isResumed it goes on where it was lost */
export function onFeed(
  state: WriterState,
  feed: number,
  {
    isConnected,
    isResumed = false,
  }: { readonly isConnected: boolean; readonly isResumed?: boolean },
): void {
  const run = runOf(state, feed)
  run.isConnected = isConnected
  // While it is lost nothing comes of it: whether something is missing shows when it is there again.
  if (run.payload !== undefined && isConnected && !isResumed)
    run.payload = { ...run.payload, hasHole: true }
}

export const isAnyConnected = ({ feeds }: WriterState): boolean =>
  [...feeds.values()].some(({ isConnected }) => isConnected)

/** Whether another feed may still bring what this one has not, or brought wrong. */
export const hasOthers = ({ feeds }: WriterState, feed: number): boolean =>
  [...feeds].some(([other, { isConnected }]) => other !== feed && isConnected)

/** Milliseconds until this feed may give the block up: 0 at once. It may where it has sent the block itself, or whoever has is silent or lost. */
export function dropsIn(state: WriterState, { feed: owner }: LiveBlock, feed: number): number {
  if (owner === undefined || owner === feed) return 0
  const { isConnected, newsAtMs } = runOf(state, owner)
  return isConnected ? Math.max(0, newsAtMs + state.limits.cadenceMs - state.options.now()) : 0
}

export function runOf(state: WriterState, feed: number): FeedRun {
  const known = state.feeds.get(feed)
  if (known !== undefined) return known
  const run = {
    isConnected: false,
    newsAtMs: state.options.now(),
    digests: [],
    payload: undefined,
    tellsEnds: false,
  }
  state.feeds.set(feed, run)
  return run
}

/** Its flashblock is shown. */
export function relayFlashblock(state: WriterState, block: LiveBlock, packet: Received): void {
  const { message, raw } = packet
  if (raw === undefined || message.type === 'end') return
  const { index, payloadId } = message
  emit(state, { type: 'relay', place: { number: block.handle.number, index, payloadId }, raw })
}

/**
 * An End goes on once, when it is true here: who follows has had the same flashblocks, and takes it for the end of the block.
 * @param isTrue all is there; else it waits until the block has ended
 */
export function noteEnd(state: WriterState, packet: Received, isTrue: boolean): void {
  const { pending } = state.chain
  const { message, raw } = packet
  if (raw === undefined || pending.payloadId !== message.payloadId || pending.isEndOver) return
  pending.endFrame = raw
  if (isTrue || pending.state !== 'open') relayEnd(state, pending)
}

/** The block is all there. */
export function relayEnd(state: WriterState, block: LiveBlock): void {
  const { endFrame: raw, payloadId, feed } = block
  if (raw === undefined || payloadId === undefined || feed === undefined || block.isEndOver) return
  overEnd(block)
  emit(state, {
    type: 'relay',
    place: { number: block.handle.number, index: undefined, payloadId },
    raw,
  })
}

/** Relayed, or it has got transactions that no frame has told: its End would say that there are none. */
export function overEnd(block: LiveBlock): void {
  block.endFrame = undefined
  block.isEndOver = true
}
