/**
 * The newest messages of a feed, for readers that reconnect. It is bounded in number and bytes, and
 * drops the oldest.
 */
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Since } from './query.ts'

/** A message and its id. */
export type BufferedMessage<Message> = {
  readonly messageId: FeedMessageId
  readonly message: Message
}
/** Messages that a reader gets before new ones. */
export type Replay<Message> = {
  readonly messages: readonly Message[]
  /**
   * Some flashblocks between the reader's newest one and `next` are no longer buffered. `next` is
   * undefined when no later flashblock is buffered.
   */
  readonly gap: { readonly next: FeedMessageId | undefined } | undefined
}

export class ReplayBuffer<Message> {
  readonly #max: { readonly messages: number; readonly bytes: number }
  readonly #sizeOf: (message: Message) => number
  #buffered: BufferedMessage<Message>[] = []
  #bytes = 0

  constructor(
    max: { readonly messages: number; readonly bytes: number },
    sizeOf: (message: Message) => number,
  ) {
    this.#max = max
    this.#sizeOf = sizeOf
  }

  add(buffered: BufferedMessage<Message>): void {
    this.#buffered.push(buffered)
    this.#bytes += this.#sizeOf(buffered.message)
    const { messages, bytes } = this.#max
    while (this.#buffered.length > messages || this.#bytes > bytes)
      this.#bytes -= this.#sizeOf(this.#buffered.shift()!.message)
  }

  get oldest(): FeedMessageId | undefined {
    return this.#buffered[0]?.messageId
  }

  /** Oldest first. */
  get all(): readonly BufferedMessage<Message>[] {
    return this.#buffered.slice()
  }

  /** Returns the messages after the reader's newest one. */
  after(since: Since): Replay<Message> {
    const at = this.#buffered.findLastIndex(({ messageId }) => isAt(messageId, since))
    if (at >= 0) return { messages: this.#from(at + 1), gap: undefined }
    const newest = this.#buffered.at(-1)?.messageId
    // The reader is ahead, from another node, so all messages that it misses are still to come.
    if (newest !== undefined && isAfterNewest(since, newest))
      return { messages: [], gap: undefined }
    const next = this.#buffered.findIndex(({ messageId }) => isAfter(since, messageId))
    const messageId = this.#buffered[next]?.messageId
    const isNext = messageId !== undefined && follows(messageId, since)
    return {
      messages: next < 0 ? [] : this.#from(next),
      gap: isNext ? undefined : { next: messageId },
    }
  }

  /**
   * Returns all messages after the first one with this id, because several messages may have the
   * same id. Some of these the reader already has. Undefined when the id is not buffered.
   */
  afterFirst(since: Since): readonly Message[] | undefined {
    const at = this.#buffered.findIndex(({ messageId }) => isAt(messageId, since))
    return at < 0 ? undefined : this.#from(at + 1)
  }

  #from(at: number): readonly Message[] {
    return this.#buffered.slice(at).map(({ message }) => message)
  }
}

const isOfOther = ({ payloadId }: Since, messageId: FeedMessageId) =>
  payloadId !== undefined && payloadId !== messageId.payloadId

/** An End comes after every index. */
const indexOf = ({ index = Number.POSITIVE_INFINITY }: Pick<Since, 'index'>) => index

const isAt = (messageId: FeedMessageId, since: Since): boolean =>
  messageId.number === since.number &&
  messageId.index === since.index &&
  !isOfOther(since, messageId)

const isAfterNewest = (since: Since, newest: FeedMessageId): boolean =>
  since.number > newest.number ||
  (since.number === newest.number && indexOf(since) > indexOf(newest) && !isOfOther(since, newest))

const isAfter = (since: Since, messageId: FeedMessageId): boolean =>
  messageId.number > since.number ||
  (messageId.number === since.number &&
    (isOfOther(since, messageId) || indexOf(messageId) > indexOf(since)))

/** Tells whether no relevant message can lie between both. */
const follows = (messageId: FeedMessageId, since: Since): boolean => {
  if (messageId.number === since.number)
    // The message starts another payload of the same block, which replaces the reader's payload.
    return isOfOther(since, messageId)
      ? messageId.index === 0
      : messageId.index === indexOf(since) + 1
  return messageId.number === since.number + 1 && messageId.index === 0 && since.index === undefined
}
