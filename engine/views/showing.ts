/** Which records clients are shown where a node stays behind (ADR 55): pure but for the clock. */

/** A flashblock, or a block as far as it has come: its height and flashblock index. */
export type ShowPlace = { readonly height: number; readonly index: number }

export type Behind = {
  /** So many flashblocks are known after the newest that is shown. */
  readonly flashblocks: number
  /** Or it has been known for so long: a feed that stands still hides nothing. */
  readonly ms: number
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** Places that are remembered: what is older has more than any `flashblocks` after it. */
const MOST_KNOWN = 64
/** Records that wait; beyond them the oldest is shown whatever its time. Far below the ring of records. */
const MOST_WAITING = 256
/** Blocks above our own head that others may be ahead: what lies further up is no place of this chain. */
const MOST_AHEAD = 64

type Known = ShowPlace & { readonly sinceMs: number }
type Waiting = { readonly record: number; readonly place: ShowPlace }

/**
 * A record is shown when enough flashblocks after its own are known, here or to a replica, or when its time is over; records in their order, whole: what
 * they say of canonical blocks waits with them. One that does not go on from what was known is shown at once, and what waited is never shown.
 */
export class Showing {
  /** The newest record that is shown. */
  shown = 0
  readonly #behind: Behind
  readonly #show: (record: number) => void
  /** By place, oldest first. */
  #known: Known[] = []
  #waiting: Waiting[] = []
  #newest: ShowPlace = { height: 0, index: 0 }

  /** @param show makes it, and all before it, readable */
  constructor(behind: Behind, show: (record: number) => void) {
    if (!(behind.flashblocks > 0 && behind.flashblocks < MOST_KNOWN && behind.ms > 0))
      throw new RangeError(`views: ${behind.flashblocks} flashblocks behind, expected 1 to 63`)
    this.#behind = behind
    this.#show = show
  }

  /** @param isContinued it has all that the record before it had */
  published(record: number, place: ShowPlace, isContinued: boolean): void {
    if (this.shown === 0 || !isContinued || isAfter(this.#newest, place)) {
      this.#known = this.#known.filter((known) => !isAfter(known, place))
      this.#waiting = []
      this.#newest = place
      this.#learn(place)
      this.#set(record)
      return
    }
    this.#newest = place
    this.#learn(place)
    this.#waiting.push({ record, place })
    this.look()
  }

  /** A replica has it. */
  heard(place: ShowPlace): void {
    if (place.height > this.#newest.height + MOST_AHEAD) return
    this.#learn(place)
    this.look()
  }

  /** Shows what is due by now. */
  look(): void {
    const now = this.#behind.now()
    let record = 0
    let count = 0
    for (const waiting of this.#waiting) {
      const mayWait = this.#waiting.length - count <= MOST_WAITING
      if (mayWait && !this.#isDue(waiting.place, now)) break
      record = waiting.record
      count++
    }
    if (count === 0) return
    this.#waiting.splice(0, count)
    this.#set(record)
  }

  /** When `look` has something to show though nothing comes; undefined: nothing waits. */
  get dueAtMs(): number | undefined {
    const [first] = this.#waiting
    return first && this.#sinceMs(first.place) + this.#behind.ms
  }

  #isDue(place: ShowPlace, now: number): boolean {
    const { flashblocks, ms } = this.#behind
    const decides = this.#known.at(-flashblocks)
    if (decides !== undefined && isAfter(decides, place)) return true
    return now >= this.#sinceMs(place) + ms
  }

  /** What is forgotten is due. */
  #sinceMs(place: ShowPlace): number {
    return this.#known.find((known) => isSame(known, place))?.sinceMs ?? Number.NEGATIVE_INFINITY
  }

  #learn(place: ShowPlace): void {
    let at = this.#known.length
    while (at > 0 && isAfter(this.#known[at - 1]!, place)) at--
    const before = this.#known[at - 1]
    if (before !== undefined && isSame(before, place)) return
    this.#known.splice(at, 0, { ...place, sinceMs: this.#behind.now() })
    if (this.#known.length > MOST_KNOWN) this.#known.shift()
  }

  #set(record: number): void {
    this.shown = record
    this.#show(record)
  }
}

const isAfter = (a: ShowPlace, b: ShowPlace): boolean =>
  a.height > b.height || (a.height === b.height && a.index > b.index)
const isSame = (a: ShowPlace, b: ShowPlace): boolean => a.height === b.height && a.index === b.index
