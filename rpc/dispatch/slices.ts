/**
 * Maximum milliseconds of front work of all batches between two turns of the event loop. Many small
 * batches thus block it no longer than one large batch. Requests that arrive during a slice also
 * wait for the next one, because the loop runs immediates before it reads.
 */
const SLICE_MS = 6

/**
 * Time slices of the event loop. A batch checks `isOver` before each piece of work and then awaits
 * `next`. After `next` there is time for one piece.
 */
export class Slices {
  readonly #now: () => number
  /** End of this turn's slice. undefined: no work has run in this turn. */
  #end: number | undefined
  readonly #waiting: (() => void)[] = []

  /** @param now monotonic milliseconds */
  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Tells whether the slice of this turn is used up.
   * @param now current time of the clock
   */
  isOver(now: number): boolean {
    if (this.#end === undefined) {
      this.#end = now + SLICE_MS
      setImmediate(() => this.#turn())
    }
    return now > this.#end
  }

  /** Waits for a turn, in order of arrival. Call it only while `isOver`. */
  next(): Promise<void> {
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  async #turn(): Promise<void> {
    this.#end = undefined
    while (this.#waiting.length > 0 && !this.isOver(this.#now())) {
      this.#waiting.shift()!()
      // The woken work runs before this loop continues.
      await undefined
    }
  }
}
