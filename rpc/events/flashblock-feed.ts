/**
 * Feed of flashblocks and removals, each once and in order, even if the front reads late. The
 * newest are retained for reconnecting subscribers. A feed without listeners stops reading after a
 * minute.
 */
import type { ChainReader, Endpoint, FlashblockId } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Limits } from '../core/limits.ts'
import { EmittedFlashblocks, type FlashblockEvent, KNOWN } from './emitted-flashblocks.ts'

export type Replay = {
  readonly events: readonly FlashblockEvent[]
  /** The flashblock is retained, so the events are all later ones. */
  readonly isComplete: boolean
}

export interface FlashblockFeed {
  /** Listens to future events, grouped by read. */
  listen(listener: (events: readonly FlashblockEvent[]) => void): () => void
  /** Emits events up to the newest snapshot, before the publish notification arrives. */
  catchUp(): void
  /** Sequence number of the next flashblock. */
  readonly next: number
  /** Returns the retained events after a flashblock. If several match, the first one counts. */
  since(flashblockId: FlashblockId): Replay
}

/** Maximum blocks read at a time, so that a jump of the head does not block the thread. */
const SLICE = 16
/** Milliseconds for which a feed continues without listeners, because disconnected ones return. */
const IDLE_MS = 60_000

type FeedOptions = {
  readonly reader: ChainReader
  /** The standard endpoint gives full blocks once they are canonical. */
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
  readonly #emitted = new EmittedFlashblocks()
  /**
   * Maximum retained events. The standard endpoint has no `since`, and retains them only to emit
   * removals in a reorg.
   */
  readonly #max: number
  /** Events, oldest first. */
  #buffered: FlashblockEvent[] = []
  #bufferedBytes = 0
  /** undefined: the feed does not read. */
  #stopReading: (() => void) | undefined
  #aloneSinceMs = 0

  constructor(options: FeedOptions) {
    this.#options = options
    const { endpoint, limits } = options
    this.#max = endpoint === 'standard' ? KNOWN : limits.replayFlashblocks
  }

  get next(): number {
    return this.#emitted.next
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

  since({ number, index, payloadId }: FlashblockId): Replay {
    const at = this.#buffered.findIndex(
      (event) =>
        event.type === 'added' &&
        event.flashblock.number === number &&
        event.flashblock.index === index &&
        (payloadId === undefined || event.flashblock.payloadId === payloadId),
    )
    if (at >= 0) return { events: this.#buffered.slice(at + 1), isComplete: true }
    const isLater = (one: FlashblockId) =>
      one.number > number || (one.number === number && one.index > index)
    const events = this.#buffered.filter((event) =>
      isLater(event.type === 'gap' ? event.after : event.flashblock),
    )
    return { events, isComplete: false }
  }

  #onPublish(): void {
    const { now } = this.#options
    if (this.#listeners.size > 0 || now() - this.#aloneSinceMs < IDLE_MS) this.#read()
    else this.#stop()
  }

  #stop(): void {
    this.#stopReading?.()
    this.#stopReading = undefined
    this.#emitted.clear()
    this.#buffered = []
    this.#bufferedBytes = 0
  }

  #read(): void {
    const { reader, endpoint } = this.#options
    if (this.#stopReading === undefined) return
    let read: ReturnType<EmittedFlashblocks['read']>
    try {
      read = readNewest(reader, endpoint, (view) => this.#emitted.read(view, SLICE))
    } catch (error) {
      // The view became void during the read, so the next publish repeats it.
      if (error instanceof ViewError) return
      throw error
    }
    const { events, hasMore } = read
    if (events.length > 0) {
      this.#buffer(events)
      for (const listener of [...this.#listeners]) listener(events)
      for (const event of events) if (event.type !== 'gap') event.flashblock.forget()
    }
    if (hasMore) setImmediate(() => this.#read())
  }

  #buffer(events: readonly FlashblockEvent[]): void {
    const { limits } = this.#options
    this.#buffered.push(...events)
    for (const event of events) this.#bufferedBytes += bytesOf(event)
    let gone = 0
    while (
      this.#buffered.length - gone > this.#max ||
      (this.#bufferedBytes > limits.replayBytes && gone < this.#buffered.length)
    )
      this.#bufferedBytes -= bytesOf(this.#buffered[gone++]!)
    if (gone === 0) return
    this.#buffered.splice(0, gone)
    const oldest = this.#buffered.find((event) => event.type === 'added')
    this.#emitted.forget(oldest?.flashblock.sequence ?? this.#emitted.next)
  }
}

const bytesOf = (event: FlashblockEvent): number =>
  event.type === 'added' ? event.flashblock.bytes : 0
