/**
 * Replay for a returning subscriber: all events since its last flashblock, or a gap marker and the
 * retained events.
 */
import type { FlashblockId } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import {
  type Channel,
  createChannels,
  type FlashblockKind,
  type FlashblockOptions,
} from './channels.ts'
import type { FlashblockEvent } from './emitted-flashblocks.ts'
import { encoded } from './flashblock.ts'
import type { Replay } from './flashblock-feed.ts'

/** Subscription to flashblocks. */
export type FlashblockSubscription = {
  readonly [K in FlashblockKind]: {
    readonly kind: K
    readonly options: FlashblockOptions[K]
    /** Last flashblock that the subscriber received. undefined: future events only. */
    readonly since: FlashblockId | undefined
  }
}[FlashblockKind]

/**
 * Returns the results for a returning subscriber, oldest first. Results that do not fit count as a
 * gap. For partial blocks only the newest of each block is sent.
 * @param from `maxBytes` limits all messages together, and `envelopeBytes` is the size of each
 *   envelope
 */
export function replayed<K extends FlashblockKind>(
  { events, isComplete }: Replay,
  wanted: { readonly kind: K; readonly options: FlashblockOptions[K] },
  from: {
    readonly flashblockId: FlashblockId
    readonly maxBytes: number
    readonly envelopeBytes: number
  },
): readonly Bytes[] {
  const channel: Channel<true, FlashblockOptions[K]> = createChannels<true>()[wanted.kind]
  channel.add(true, wanted.options)
  const emitted = wanted.kind === 'newFlashblocks' ? newestOfBlocks(events) : events
  const found: Bytes[][] = []
  let bytes = 0
  let isCut = !isComplete
  let oldest: FlashblockId | undefined
  // The newest results take precedence.
  for (const event of emitted.toReversed()) {
    const own: Bytes[] = []
    if (event.type === 'gap') own.push(gapMarker(event.after, oldest))
    else {
      channel.emit(event, (_, result) => own.push(result))
      event.flashblock.forget()
    }
    bytes += own.reduce((sum, { length }) => sum + length + from.envelopeBytes, 0)
    if (bytes > from.maxBytes) {
      isCut = true
      break
    }
    if (event.type === 'added') oldest = event.flashblock
    found.push(own)
  }
  const results = found.reverse().flat()
  return isCut ? [gapMarker(from.flashblockId, oldest), ...results] : results
}

/**
 * Returns a gap marker.
 * @param next first flashblock after the gap; undefined if still to come
 */
export function gapMarker(since: FlashblockId, next: FlashblockId | undefined): Bytes {
  const then = next === undefined ? 'null' : `"${textOf(next)}"`
  return encoded(`{"type":"gap","since":"${textOf(since)}","next":${then}}`)
}

const textOf = ({ number, index, payloadId }: FlashblockId): string =>
  `${number}:${index}${payloadId === undefined ? '' : `:${payloadId}`}`

function newestOfBlocks(events: readonly FlashblockEvent[]): readonly FlashblockEvent[] {
  return events.filter((event, at) => {
    const next = events[at + 1]
    const isFollowed = event.type === 'added' && next?.type === 'added'
    return !isFollowed || next.flashblock.number !== event.flashblock.number
  })
}
