/** The newest messages of a feed, for readers that were away. Bounded in number and bytes: the oldest go. */
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Since } from './query.ts'

/** A message as it goes out, and which it is. */
export type Held<Message> = { readonly place: FeedPlace; readonly message: Message }
/** What a reader gets before what is new. */
export type Replay<Message> = {
  readonly messages: readonly Message[]
  /** Flashblocks after what it has and before this are not held any more; `next` undefined: nor is any later one. */
  readonly gap: { readonly next: FeedPlace | undefined } | undefined
}

export class HeldMessages<Message> {
  readonly #most: { readonly messages: number; readonly bytes: number }
  readonly #sizeOf: (message: Message) => number
  #held: Held<Message>[] = []
  #bytes = 0

  constructor(
    most: { readonly messages: number; readonly bytes: number },
    sizeOf: (message: Message) => number,
  ) {
    this.#most = most
    this.#sizeOf = sizeOf
  }

  add(held: Held<Message>): void {
    this.#held.push(held)
    this.#bytes += this.#sizeOf(held.message)
    const { messages, bytes } = this.#most
    while (this.#held.length > messages || this.#bytes > bytes)
      this.#bytes -= this.#sizeOf(this.#held.shift()!.message)
  }

  get oldest(): FeedPlace | undefined {
    return this.#held[0]?.place
  }

  /** Oldest first. */
  get all(): readonly Held<Message>[] {
    return this.#held.slice()
  }

  /** What came after the message that a reader has. */
  after(since: Since): Replay<Message> {
    const at = this.#held.findLastIndex(({ place }) => isAt(place, since))
    if (at >= 0) return { messages: this.#from(at + 1), gap: undefined }
    const newest = this.#held.at(-1)?.place
    // It has been further elsewhere: what it has not will come.
    if (newest !== undefined && isAhead(since, newest)) return { messages: [], gap: undefined }
    const next = this.#held.findIndex(({ place }) => isBehind(since, place))
    const place = this.#held[next]?.place
    const isNext = place !== undefined && follows(place, since)
    return {
      messages: next < 0 ? [] : this.#from(next),
      gap: isNext ? undefined : { next: place },
    }
  }

  /**
   * The same of messages of which several may have one place: all after the first of them, also those that the reader has had. undefined: the place
   * is not held.
   */
  afterFirst(since: Since): readonly Message[] | undefined {
    const at = this.#held.findIndex(({ place }) => isAt(place, since))
    return at < 0 ? undefined : this.#from(at + 1)
  }

  #from(at: number): readonly Message[] {
    return this.#held.slice(at).map(({ message }) => message)
  }
}

const isOfOther = ({ payloadId }: Since, place: FeedPlace) =>
  payloadId !== undefined && payloadId !== place.payloadId

/** An End comes after every index. */
const indexOf = ({ index = Number.POSITIVE_INFINITY }: Pick<Since, 'index'>) => index

const isAt = (place: FeedPlace, since: Since): boolean =>
  place.number === since.number && place.index === since.index && !isOfOther(since, place)

const isAhead = (since: Since, newest: FeedPlace): boolean =>
  since.number > newest.number ||
  (since.number === newest.number && indexOf(since) > indexOf(newest) && !isOfOther(since, newest))

const isBehind = (since: Since, place: FeedPlace): boolean =>
  place.number > since.number ||
  (place.number === since.number && (isOfOther(since, place) || indexOf(place) > indexOf(since)))

/** Nothing can have been between them that still counts. */
const follows = (place: FeedPlace, since: Since): boolean => {
  if (place.number === since.number)
    // Of another payload of the same block, which takes its place.
    return isOfOther(since, place) ? place.index === 0 : place.index === indexOf(since) + 1
  return place.number === since.number + 1 && place.index === 0 && since.index === undefined
}
