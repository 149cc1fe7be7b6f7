/** What waits for the writer: the keeper's answers first, then canonical blocks, then the feed; the feed is bounded and may skip. */
import type { Bytes } from '../primitives/bytes.ts'
import type { FeedFrame, WriterEvent } from './writer-types.ts'

export type MailboxLimits = {
  /** Frames of the feed. */
  readonly frames: number
  /** Their transactions' bytes. */
  readonly frameBytes: number
}
export const MAILBOX_LIMITS: MailboxLimits = { frames: 1_024, frameBytes: 64 * 1024 * 1024 }

export class Mailbox {
  readonly #limits: MailboxLimits
  readonly #urgent: WriterEvent[] = []
  readonly #sealed: WriterEvent[] = []
  #frames: FeedFrame[] = []
  #frameBytes = 0
  #skipped = 0

  constructor(limits: MailboxLimits = MAILBOX_LIMITS) {
    this.#limits = limits
  }

  /** Frames that do not fit push out the oldest: the sequence they belong to has a gap then, and says so. */
  push(event: WriterEvent): void {
    if (event.type === 'sealed') this.#sealed.push(event)
    else if (event.type !== 'frame') this.#urgent.push(event)
    else {
      this.#frames.push(event.frame)
      this.#frameBytes += sizeOf(event.frame)
      while (
        this.#frames.length > this.#limits.frames ||
        (this.#frameBytes > this.#limits.frameBytes && this.#frames.length > 1)
      )
        this.#drop(1)
    }
  }

  /**
   * The next event. More than a block behind, frames before the newest index 0 that can be begun at once are skipped; `isKnown`
   * tells of a parent hash whether it is the one of a finished block.
   */
  next(isKnown: (parentHash: Bytes) => boolean): WriterEvent | undefined {
    const first = this.#urgent.shift() ?? this.#sealed.shift()
    if (first !== undefined) return first
    const begins = this.#frames.flatMap(({ message }, at) =>
      message.type === 'flashblock' && message.base !== undefined
        ? [{ at, parentHash: message.base.parentHash }]
        : [],
    )
    if (begins.length > 1) {
      const newest = begins.findLast(({ parentHash }) => isKnown(parentHash))
      if (newest !== undefined) this.#drop(newest.at)
    }
    const frame = this.#frames[0]
    if (frame === undefined) return undefined
    this.#frames.shift()
    this.#frameBytes -= sizeOf(frame)
    return { type: 'frame', frame }
  }

  /** Frames skipped since the last call. */
  takeSkipped(): number {
    const skipped = this.#skipped
    this.#skipped = 0
    return skipped
  }

  get size(): number {
    return this.#urgent.length + this.#sealed.length + this.#frames.length
  }

  #drop(count: number): void {
    for (const frame of this.#frames.slice(0, count)) this.#frameBytes -= sizeOf(frame)
    this.#frames = this.#frames.slice(count)
    this.#skipped += count
  }
}

/** Bytes that a frame keeps in memory, about. */
function sizeOf({ message }: FeedFrame): number {
  if (message.type === 'end') return 100
  let bytes = 1_000
  for (const { length } of message.delta.transactions) bytes += length + 100
  return bytes
}
