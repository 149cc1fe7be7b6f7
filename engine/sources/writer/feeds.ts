/**
 * State of each feed, the rules between feeds, and the relay to followers of this node. Judged
 * frames are relayed unchanged, in the order in which they become visible.
 */
import { isSubblock } from '../../flashblocks/identity.ts'
import type { LiveBlock } from './live-block.ts'
import type { FeedRun, Received } from './reorder-buffer.ts'
import type { FeedPacket } from './types.ts'
import { emit, type WriterState } from './writer-state.ts'

/** Limit of digests per feed by which repeated flashblocks are recognized. */
const MAX_DIGESTS = 64

/**
 * Limit of payloads per feed whose flashblocks are counted. A feed may send flashblocks of an older
 * payload again between those of the newest.
 */
const MAX_PAYLOADS = 8

/** Records a packet, and adds what its feed had sent by then. */
export function receive(state: WriterState, packet: FeedPacket): Received {
  const run = runOf(state, packet.feed)
  const { message } = packet
  const known = run.payloads.find(({ payloadId }) => payloadId === message.payloadId)
  if (message.type === 'end') {
    run.announcesEnds = true
    const isComplete = known !== undefined && !known.hasHole && known.inRow > 0
    return { ...packet, sent: isComplete ? known.inRow : undefined }
  }
  const { payloadId, index, base, blockNumber } = message
  const { inRow, hasHole, areSubblocks, isHeightKnown } = known ?? NOTHING_SENT
  const height = base?.blockNumber ?? blockNumber
  if (message.targetIndex > 0) run.announcesEnds = true
  const isOld = height !== undefined && height <= BigInt(state.chain.canonical.handle.number)
  if (!isOld) recordNews(run, { digest: packet.digest, nowMs: state.options.now() })
  const before = run.payloads.at(-1)
  const areHeightsKnown = run.payloads.every((payload) => payload.isHeightKnown)
  const payload = {
    payloadId,
    isHeightKnown: isHeightKnown || height !== undefined,
    inRow: index === inRow ? inRow + 1 : inRow,
    hasHole: hasHole || index > inRow,
    areSubblocks: areSubblocks && isSubblock(message),
  }
  run.payloads =
    known === undefined
      ? [...run.payloads, payload].slice(-MAX_PAYLOADS)
      : run.payloads.map((other) => (other === known ? payload : other))
  const isFirst = base !== undefined && known === undefined
  return isFirst && areHeightsKnown ? { ...packet, before } : packet
}

const NOTHING_SENT = { inRow: 0, hasHole: false, areSubblocks: true, isHeightKnown: false }

/**
 * A flashblock is news by its digest, because a wrong flashblock may have used its index before.
 */
function recordNews(
  run: FeedRun,
  { digest, nowMs }: { readonly digest: bigint; readonly nowMs: number },
): void {
  if (run.digests.includes(digest)) return
  run.newsAtMs = nowMs
  run.digests.push(digest)
  if (run.digests.length > MAX_DIGESTS) run.digests.shift()
}

/** @param isResumed the feed continues where its connection was lost */
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
  // A loss is recorded at the reconnect, because nothing arrives while the connection is lost.
  if (isConnected && !isResumed)
    run.payloads = run.payloads.map((payload) => ({ ...payload, hasHole: true }))
}

export const isAnyConnected = ({ feeds }: WriterState): boolean =>
  [...feeds.values()].some(({ isConnected }) => isConnected)

/** Whether another connected feed may bring flashblocks that this feed lacks or has wrong. */
export const hasOthers = ({ feeds }: WriterState, feed: number): boolean =>
  [...feeds].some(([other, { isConnected }]) => other !== feed && isConnected)

/**
 * Returns milliseconds until this feed may drop the block. The result is 0 for the block's own
 * feed, or when that feed is silent or lost.
 */
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
    payloads: [],
    announcesEnds: false,
  }
  state.feeds.set(feed, run)
  return run
}

export function relayFlashblock(state: WriterState, block: LiveBlock, packet: Received): void {
  const { message, raw } = packet
  if (raw === undefined || message.type === 'end') return
  const { index, payloadId } = message
  emit(state, { type: 'relay', messageId: { number: block.handle.number, index, payloadId }, raw })
}

/**
 * Records an End, which is relayed once and only if true here, because followers end their block
 * with it.
 * @param isTrue the block is complete; otherwise the End waits until the block has ended
 */
export function recordEnd(state: WriterState, packet: Received, isTrue: boolean): void {
  const { pending } = state.chain
  const { message, raw } = packet
  if (raw === undefined || pending.payloadId !== message.payloadId || pending.isEndOver) return
  pending.endFrame = raw
  if (isTrue || pending.state !== 'open') relayEnd(state, pending)
}

export function relayEnd(state: WriterState, block: LiveBlock): void {
  const { endFrame: raw, payloadId, feed } = block
  if (raw === undefined || payloadId === undefined || feed === undefined || block.isEndOver) return
  overEnd(block)
  emit(state, {
    type: 'relay',
    messageId: { number: block.handle.number, index: undefined, payloadId },
    raw,
  })
}

/**
 * Marks an End as relayed, or as void because the block has transactions that no frame contains.
 */
export function overEnd(block: LiveBlock): void {
  block.endFrame = undefined
  block.isEndOver = true
}
