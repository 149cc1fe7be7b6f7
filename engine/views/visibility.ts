/**
 * Decides which snapshots clients see with a flashblock lag (ADR 55). The logic is pure except for
 * the clock.
 */

/** Height and flashblock index of a flashblock, or of a block as far as it has arrived. */
export type ChainPosition = { readonly height: number; readonly index: number }

export type FlashblockLag = {
  /** Number of flashblocks that must be known after the newest visible one. */
  readonly flashblocks: number
  /** A snapshot also becomes visible after this time, so that a stopped feed hides nothing. */
  readonly ms: number
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/**
 * Maximum number of remembered positions. An older one has more than any `flashblocks` after it.
 */
const MAX_KNOWN = 64
/**
 * Maximum number of waiting snapshots; beyond it the oldest becomes visible at once. The ring of
 * snapshots is far larger.
 */
const MAX_WAITING = 256
/** Maximum lead of a replica in blocks. A higher position does not belong to this chain. */
const MAX_LEAD = 64

type Known = ChainPosition & { readonly sinceMs: number }
type Waiting = { readonly snapshot: number; readonly position: ChainPosition }

/**
 * Makes a snapshot visible when enough later flashblocks are known here or on a replica, or after
 * the delay.
 * Snapshots become visible in order and complete, so news of canonical blocks waits as well. A
 * snapshot that does not continue the last one is visible at once and discards the waiting ones.
 */
export class Visibility {
  visible = 0
  readonly #lag: FlashblockLag
  readonly #makeVisible: (snapshot: number) => void
  /** Known positions, oldest first. */
  #known: Known[] = []
  #waiting: Waiting[] = []
  #newest: ChainPosition = { height: 0, index: 0 }

  /** @param makeVisible makes the snapshot, and all before it, visible */
  constructor(lag: FlashblockLag, makeVisible: (snapshot: number) => void) {
    if (!(lag.flashblocks > 0 && lag.flashblocks < MAX_KNOWN && lag.ms > 0))
      throw new RangeError(`views: ${lag.flashblocks} flashblocks behind, expected 1 to 63`)
    this.#lag = lag
    this.#makeVisible = makeVisible
  }

  /** @param isContinued whether the snapshot contains everything of the one before */
  published(snapshot: number, position: ChainPosition, isContinued: boolean): void {
    if (this.visible === 0 || !isContinued || isAfter(this.#newest, position)) {
      this.#known = this.#known.filter((known) => !isAfter(known, position))
      this.#waiting = []
      this.#newest = position
      this.#learn(position)
      this.#set(snapshot)
      return
    }
    this.#newest = position
    this.#learn(position)
    this.#waiting.push({ snapshot, position })
    this.update()
  }

  /** A replica has reported a position. */
  onPosition(position: ChainPosition): void {
    if (position.height > this.#newest.height + MAX_LEAD) return
    this.#learn(position)
    this.update()
  }

  /** Makes all snapshots visible that are due. */
  update(): void {
    const now = this.#lag.now()
    let snapshot = 0
    let count = 0
    for (const waiting of this.#waiting) {
      const mayWait = this.#waiting.length - count <= MAX_WAITING
      if (mayWait && !this.#isDue(waiting.position, now)) break
      snapshot = waiting.snapshot
      count++
    }
    if (count === 0) return
    this.#waiting.splice(0, count)
    this.#set(snapshot)
  }

  /** Time at which `update` has work without any new event; undefined: nothing waits. */
  get dueAtMs(): number | undefined {
    const [first] = this.#waiting
    return first && this.#sinceMs(first.position) + this.#lag.ms
  }

  #isDue(position: ChainPosition, now: number): boolean {
    const { flashblocks, ms } = this.#lag
    const decides = this.#known.at(-flashblocks)
    if (decides !== undefined && isAfter(decides, position)) return true
    return now >= this.#sinceMs(position) + ms
  }

  /** A forgotten position is due. */
  #sinceMs(position: ChainPosition): number {
    return this.#known.find((known) => isSame(known, position))?.sinceMs ?? Number.NEGATIVE_INFINITY
  }

  #learn(position: ChainPosition): void {
    let at = this.#known.length
    while (at > 0 && isAfter(this.#known[at - 1]!, position)) at--
    const before = this.#known[at - 1]
    if (before !== undefined && isSame(before, position)) return
    this.#known.splice(at, 0, { ...position, sinceMs: this.#lag.now() })
    if (this.#known.length > MAX_KNOWN) this.#known.shift()
  }

  #set(snapshot: number): void {
    this.visible = snapshot
    this.#makeVisible(snapshot)
  }
}

const isAfter = (a: ChainPosition, b: ChainPosition): boolean =>
  a.height > b.height || (a.height === b.height && a.index > b.index)
const isSame = (a: ChainPosition, b: ChainPosition): boolean =>
  a.height === b.height && a.index === b.index
