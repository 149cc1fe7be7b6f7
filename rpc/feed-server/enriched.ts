/**
 * Messages of /feed?enrich=1: each published chain snapshot, numbered. A new reader first gets
 * everything above canonical.
 */

import { compressJson } from '../../engine/flashblocks/codec.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type {
  Changes,
  EncodedFlashblock,
  EncodedHeader,
} from '../../engine/sources/writer/changes.ts'
import { changesSize, changesText, type Stamp, type VisibleFlashblock } from './enriched-text.ts'

export type EnrichedMessage = {
  /** Approximate size of the source data and the text. */
  readonly bytes: number
  /** Text in UTF-8, built on first read and shared by all readers. */
  data(): Bytes
  /** Text compressed like X Layer's frames; a long text stays uncompressed. */
  compressed(): Bytes
}

/**
 * This quality gives a quarter of the bytes, at a millisecond for 300 kB. The next ones save a
 * twentieth more in twice the time (2026-11).
 */
const QUALITY = 1
/** Longer messages, such as snapshots, would block the front for more than some milliseconds. */
const MAX_COMPRESSED_BYTES = 1 << 20

/** Payload id of a block that came from no feed. */
const NO_PAYLOAD = '0x0000000000000000'

/** Plain data. `changes` is undefined before the first message. */
export type EnrichedSeed = { readonly seq: number; readonly changes: Changes | undefined }

type Above = { readonly flashblocks: EncodedFlashblock[]; header: EncodedHeader | undefined }

export class EnrichedFeed {
  /** Id of this run of the node; message numbers are only valid within it. */
  readonly run: string
  #seq = 0
  #heads: Changes['heads'] | undefined
  #messageId: FeedMessageId | undefined
  /** Blocks above canonical, by number; the writer bounds them. */
  readonly #above = new Map<number, Above>()
  #snapshot: EnrichedMessage | undefined

  /** @param seed state of another feed of this run, which this feed continues */
  constructor(run: string, seed?: EnrichedSeed) {
    this.run = run
    if (seed === undefined) return
    this.#seq = seed.seq
    if (seed.changes !== undefined) this.#apply(seed.changes)
  }

  /**
   * Adds a message.
   * @returns `messageId` is the newest sent flashblock, or undefined
   */
  take(changes: Changes): {
    readonly message: EnrichedMessage
    readonly messageId: FeedMessageId | undefined
  } {
    this.#apply(changes)
    this.#snapshot = undefined
    const stamp = { run: this.run, seq: ++this.#seq }
    return {
      message: once(changes, stamp),
      messageId: this.#messageId,
    }
  }

  /**
   * Returns everything above canonical, as of the newest message; undefined before the first one.
   */
  snapshot(): EnrichedMessage | undefined {
    const visible = this.#visible(visibleOf)
    if (visible === undefined) return undefined
    const changes = { ...visible, headers: [] }
    const stamp = { run: this.run, seq: this.#seq }
    this.#snapshot ??= once(changes, stamp)
    return this.#snapshot
  }

  /** Returns the state that another feed can continue. */
  seed(): EnrichedSeed {
    const visible = this.#visible(({ flashblocks }) => flashblocks)
    const headers = [...this.#above.values()].flatMap(({ header }) => header ?? [])
    return { seq: this.#seq, changes: visible && { ...visible, headers } }
  }

  #visible<T extends EncodedFlashblock>(of: (above: Above) => readonly T[]) {
    const heads = this.#heads
    if (heads === undefined) return undefined
    const flashblocks = [...this.#above.values()].flatMap(of)
    return { isStart: true, removed: undefined, flashblocks, heads }
  }

  #apply({ isStart, removed, flashblocks, headers, heads }: Changes): void {
    const above = this.#above
    if (isStart) above.clear()
    if (removed !== undefined)
      for (const number of above.keys()) if (number > removed.above) above.delete(number)
    for (const flashblock of flashblocks) {
      const { number, index, payloadId = NO_PAYLOAD } = flashblock
      const block = above.get(number) ?? { flashblocks: [], header: undefined }
      block.flashblocks.push(flashblock)
      above.set(number, block)
      this.#messageId = { number, index, payloadId }
    }
    for (const header of headers) {
      const block = above.get(header.number)
      if (block !== undefined) block.header = header
    }
    for (const number of above.keys()) if (number <= heads.canonical.number) above.delete(number)
    this.#heads = heads
  }
}

/** Readers of a snapshot get each block's final header before the next block. */
const visibleOf = ({ flashblocks, header }: Above): readonly VisibleFlashblock[] =>
  header === undefined
    ? flashblocks
    : [...flashblocks.slice(0, -1), { ...flashblocks.at(-1)!, final: header }]

function once(changes: Changes, stamp: Stamp): EnrichedMessage {
  let text: Bytes | undefined
  let compressed: Bytes | undefined
  const data = () => {
    text ??= Buffer.from(changesText(changes, stamp))
    return text
  }
  return {
    bytes: changesSize(changes),
    data,
    compressed() {
      compressed ??= data().length > MAX_COMPRESSED_BYTES ? data() : compressJson(data(), QUALITY)
      return compressed
    },
  }
}
