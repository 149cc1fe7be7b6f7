/** Places of a feed's messages: only index 0 has to say which block it is of. */
import type { FeedMessage, FeedPlace } from './types.ts'

/** Payloads whose height is remembered: what comes later of an older one has no place. */
const MOST_PAYLOADS = 16

/** undefined: nobody has said of which block the message is. */
export function createPlaces(): (message: FeedMessage) => FeedPlace | undefined {
  const numbers = new Map<string, number>()
  return (message) => {
    const { payloadId } = message
    const isFlashblock = message.type === 'flashblock'
    const said = isFlashblock ? (message.base?.blockNumber ?? message.blockNumber) : undefined
    if (said !== undefined && !numbers.has(payloadId)) {
      numbers.set(payloadId, Number(said))
      if (numbers.size > MOST_PAYLOADS) numbers.delete(numbers.keys().next().value!)
    }
    const number = numbers.get(payloadId)
    if (number === undefined) return undefined
    return { number, index: isFlashblock ? message.index : undefined, payloadId }
  }
}

/** `number:index:payload_id`, as `X-Flashblock` has it; `end` stands for the index of an End. */
export const placeText = ({ number, index, payloadId }: FeedPlace): string =>
  `${number}:${index ?? 'end'}:${payloadId}`
