/** Messages of /feed?enrich=1: each record that the writer publishes, numbered; and all that stands above canonical, for who comes. */

import { compressJson } from '../../engine/flashblocks/codec.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Changes, ToldFlashblock, ToldHeader } from '../../engine/sources/writer/changes.ts'
import { changesSize, changesText, type ShownFlashblock, type Stamp } from './enriched-text.ts'

export type EnrichedMessage = {
  /** About: what it is made of, and its text. */
  readonly bytes: number
  /** UTF-8. Made when somebody reads it, once for all who do. */
  data(): Bytes
  /** The same as `data`, compressed as X Layer's frames are; a long one as it is. */
  compressed(): Bytes
}

/** A quarter of the bytes, a millisecond for 300 kB; the next ones make it a twentieth smaller in twice the time (2026-11). */
const QUALITY = 1
/** Longer ones, as snapshots may be, would keep the front for more than some milliseconds. */
const MOST_COMPRESSED_BYTES = 1 << 20

/** Of a block that no feed has brought. */
const NO_PAYLOAD = '0x0000000000000000'

/** Plain data. `changes` is undefined where nothing was told yet. */
export type Begun = { readonly seq: number; readonly changes: Changes | undefined }

type Above = { readonly flashblocks: ToldFlashblock[]; header: ToldHeader | undefined }

export class EnrichedFeed {
  /** Of this run of the node: numbers of messages mean nothing to another one. */
  readonly run: string
  #seq = 0
  #heads: Changes['heads'] | undefined
  #place: FeedPlace | undefined
  /** Blocks above canonical, by number: as many as the writer lets stand there. */
  readonly #above = new Map<number, Above>()
  #snapshot: EnrichedMessage | undefined

  /** @param begun what another one has told, which this one goes on from */
  constructor(run: string, begun?: Begun) {
    this.run = run
    if (begun === undefined) return
    this.#seq = begun.seq
    if (begun.changes !== undefined) this.#apply(begun.changes)
  }

  /** `place`: the newest flashblock that was told; undefined: none was. */
  take(changes: Changes): {
    readonly message: EnrichedMessage
    readonly place: FeedPlace | undefined
  } {
    this.#apply(changes)
    this.#snapshot = undefined
    const stamp = { run: this.run, seq: ++this.#seq }
    return {
      message: once(changes, stamp),
      place: this.#place,
    }
  }

  /** Everything above canonical, as of the newest message; undefined: there was none. */
  snapshot(): EnrichedMessage | undefined {
    const shown = this.#shown(shownOf)
    if (shown === undefined) return undefined
    const changes = { ...shown, headers: [] }
    const stamp = { run: this.run, seq: this.#seq }
    this.#snapshot ??= once(changes, stamp)
    return this.#snapshot
  }

  /** What another one may go on from. */
  begun(): Begun {
    const shown = this.#shown(({ flashblocks }) => flashblocks)
    const headers = [...this.#above.values()].flatMap(({ header }) => header ?? [])
    return { seq: this.#seq, changes: shown && { ...shown, headers } }
  }

  #shown<T extends ToldFlashblock>(of: (above: Above) => readonly T[]) {
    const heads = this.#heads
    if (heads === undefined) return undefined
    const flashblocks = [...this.#above.values()].flatMap(of)
    return { isBeginning: true, removed: undefined, flashblocks, heads }
  }

  #apply({ isBeginning, removed, flashblocks, headers, heads }: Changes): void {
    const above = this.#above
    if (isBeginning) above.clear()
    if (removed !== undefined)
      for (const number of above.keys()) if (number > removed.above) above.delete(number)
    for (const told of flashblocks) {
      const { number, index, payloadId = NO_PAYLOAD } = told
      const block = above.get(number) ?? { flashblocks: [], header: undefined }
      block.flashblocks.push(told)
      above.set(number, block)
      this.#place = { number, index, payloadId }
    }
    for (const header of headers) {
      const block = above.get(header.number)
      if (block !== undefined) block.header = header
    }
    for (const number of above.keys()) if (number <= heads.canonical.number) above.delete(number)
    this.#heads = heads
  }
}

/** Whoever begins with them has each block's last header before the block on it. */
const shownOf = ({ flashblocks, header }: Above): readonly ShownFlashblock[] =>
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
      compressed ??= data().length > MOST_COMPRESSED_BYTES ? data() : compressJson(data(), QUALITY)
      return compressed
    },
  }
}
