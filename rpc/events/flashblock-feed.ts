/**
 * Flashblocks as they become readable, each once and in order however late the front looks, and places that are gone. The newest of it are
 * held for those that come back. Nothing is read while nobody listens.
 */
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader, Endpoint, FlashblockPlace } from '../../engine/chain/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Limits } from '../seam/limits.ts'
import { type FlashblockEvent, KNOWN, Told } from './told.ts'

export type Replay = {
  readonly events: readonly FlashblockEvent[]
  /** The place is held, so that the events are all that came after it. */
  readonly isWhole: boolean
}

export interface FlashblockFeed {
  /** Events from now on, those of one reading at a time. */
  listen(listener: (events: readonly FlashblockEvent[]) => void): () => void
  /** Brings the listeners up to the newest record, before its hint has arrived. */
  catchUp(): void
  /** Sequence of the next flashblock. */
  readonly next: number
  /** What is held of the time after a place; of all places of that name the one that came first. */
  since(place: FlashblockPlace): Replay
}

/** Blocks read at a time, so that a jump of the head never holds the thread for long. */
const SLICE = 16
/** How long it goes on when nobody listens any more: those that have lost their connection come back. */
const IDLE_MS = 60_000

type FeedOptions = {
  readonly reader: ChainReader
  /** The standard one shows whole blocks, when they are canonical. */
  readonly endpoint: Endpoint
  readonly onPublish: (listener: () => void) => () => void
  readonly limits: Pick<Limits, 'replayFlashblocks' | 'replayBytes'>
  /** Monotonic milliseconds. */
  readonly now: () => number
}
export const createFlashblockFeed = (options: FeedOptions): FlashblockFeed => new Feed(options)

class Feed implements FlashblockFeed {
  readonly #options: FeedOptions
  readonly #listeners = new Set<(events: readonly FlashblockEvent[]) => void>()
  readonly #told = new Told()
  /** On `/` nobody asks `since`: what is held there only tells a reorganisation by what it has changed. */
  readonly #most: number
  /** Oldest first. */
  #held: FlashblockEvent[] = []
  #heldBytes = 0
  /** Undefined: it reads nothing. */
  #stopReading: (() => void) | undefined
  #aloneSinceMs = 0

  constructor(options: FeedOptions) {
    this.#options = options
    const { endpoint, limits } = options
    this.#most = endpoint === 'standard' ? KNOWN : limits.replayFlashblocks
  }

  get next(): number {
    return this.#told.next
  }

  listen(listener: (events: readonly FlashblockEvent[]) => void): () => void {
    this.catchUp()
    this.#listeners.add(listener)
    return () => {
      if (this.#listeners.delete(listener)) this.#aloneSinceMs = this.#options.now()
    }
  }

  catchUp(): void {
    const { onPublish } = this.#options
    this.#stopReading ??= onPublish(() => this.#onPublish())
    this.#read()
  }

  since({ number, index, payloadId }: FlashblockPlace): Replay {
    const at = this.#held.findIndex(
      (event) =>
        event.type === 'added' &&
        event.flashblock.number === number &&
        event.flashblock.index === index &&
        (payloadId === undefined || event.flashblock.payloadId === payloadId),
    )
    if (at >= 0) return { events: this.#held.slice(at + 1), isWhole: true }
    const isLater = (one: FlashblockPlace) =>
      one.number > number || (one.number === number && one.index > index)
    const events = this.#held.filter((event) =>
      isLater(event.type === 'gap' ? event.after : event.flashblock),
    )
    return { events, isWhole: false }
  }

  #onPublish(): void {
    const { now } = this.#options
    if (this.#listeners.size > 0 || now() - this.#aloneSinceMs < IDLE_MS) this.#read()
    else this.#stop()
  }

  #stop(): void {
    this.#stopReading?.()
    this.#stopReading = undefined
    this.#told.clear()
    this.#held = []
    this.#heldBytes = 0
  }

  #read(): void {
    const { reader, endpoint } = this.#options
    if (this.#stopReading === undefined) return
    let read: ReturnType<Told['read']>
    try {
      read = readNewest(reader, endpoint, (view) => this.#told.read(view, SLICE))
    } catch (error) {
      // The view went while it was read: the next publish starts from the same place.
      if (error instanceof ViewError) return
      throw error
    }
    const { events, isBehind } = read
    if (events.length > 0) {
      this.#hold(events)
      for (const listener of [...this.#listeners]) listener(events)
      for (const event of events) if (event.type !== 'gap') event.flashblock.forget()
    }
    if (isBehind) setImmediate(() => this.#read())
  }

  #hold(events: readonly FlashblockEvent[]): void {
    const { limits } = this.#options
    this.#held.push(...events)
    for (const event of events) this.#heldBytes += bytesOf(event)
    let gone = 0
    while (
      this.#held.length - gone > this.#most ||
      (this.#heldBytes > limits.replayBytes && gone < this.#held.length)
    )
      this.#heldBytes -= bytesOf(this.#held[gone++]!)
    if (gone === 0) return
    this.#held.splice(0, gone)
    const oldest = this.#held.find((event) => event.type === 'added')
    this.#told.forget(oldest?.flashblock.sequence ?? this.#told.next)
  }
}

const bytesOf = (event: FlashblockEvent): number =>
  event.type === 'added' ? event.flashblock.bytes : 0
