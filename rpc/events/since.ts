/** What a subscriber gets that says where it was before: all that came since, or a marker of the gap and what is held. */
import type { FlashblockPlace } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import {
  type Channel,
  createChannels,
  type FlashblockKind,
  type FlashblockOptions,
} from './channels.ts'
import { encoded } from './flashblock.ts'
import type { Replay } from './flashblock-feed.ts'
import type { FlashblockEvent } from './told.ts'

/** What a subscriber of flashblocks wants. */
export type FlashblockSubscription = {
  readonly [K in FlashblockKind]: {
    readonly kind: K
    readonly options: FlashblockOptions[K]
    /** Where the subscriber was before; undefined: it wants what comes. */
    readonly since: FlashblockPlace | undefined
  }
}[FlashblockKind]

/**
 * Results for one subscriber, oldest first; what is left out is a gap too. Of blocks so far each block's newest is enough.
 * @param from `mostBytes` of all messages together, each with an envelope around its result
 */
export function replayed<K extends FlashblockKind>(
  { events, isWhole }: Replay,
  wanted: { readonly kind: K; readonly options: FlashblockOptions[K] },
  from: {
    readonly place: FlashblockPlace
    readonly mostBytes: number
    readonly envelopeBytes: number
  },
): readonly Bytes[] {
  const channel: Channel<true, FlashblockOptions[K]> = createChannels<true>()[wanted.kind]
  channel.add(true, wanted.options)
  const told = wanted.kind === 'newFlashblocks' ? newestOfBlocks(events) : events
  const found: Bytes[][] = []
  let bytes = 0
  let isCut = !isWhole
  let oldest: FlashblockPlace | undefined
  // The newest first: they are what fits for certain.
  for (const event of told.toReversed()) {
    const own: Bytes[] = []
    if (event.type === 'gap') own.push(gapMarker(event.after, oldest))
    else {
      channel.tell(event, (_, result) => own.push(result))
      event.flashblock.forget()
    }
    bytes += own.reduce((sum, { length }) => sum + length + from.envelopeBytes, 0)
    if (bytes > from.mostBytes) {
      isCut = true
      break
    }
    if (event.type === 'added') oldest = event.flashblock
    found.push(own)
  }
  const results = found.reverse().flat()
  return isCut ? [gapMarker(from.place, oldest), ...results] : results
}

/** `next`: the first flashblock that follows the gap; undefined: it is still to come. */
export function gapMarker(since: FlashblockPlace, next: FlashblockPlace | undefined): Bytes {
  const then = next === undefined ? 'null' : `"${textOf(next)}"`
  return encoded(`{"type":"gap","since":"${textOf(since)}","next":${then}}`)
}

const textOf = ({ number, index, payloadId }: FlashblockPlace): string =>
  `${number}:${index}${payloadId === undefined ? '' : `:${payloadId}`}`

function newestOfBlocks(events: readonly FlashblockEvent[]): readonly FlashblockEvent[] {
  return events.filter((event, at) => {
    const next = events[at + 1]
    const isFollowed = event.type === 'added' && next?.type === 'added'
    return !isFollowed || next.flashblock.number !== event.flashblock.number
  })
}
