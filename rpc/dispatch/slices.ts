/**
 * Front work of all batches together between two turns of the event loop: many small ones hold it no longer than a large one. Who comes
 * while one slice runs waits for the next one too, because the loop runs what it was told before it reads.
 */
const SLICE_MS = 6

/** Who takes part asks `isOver` before each piece of work, and when it is awaits `next`, after which there is time for a piece. */
export class Slices {
  readonly #now: () => number
  /** Of the slice of this turn; undefined: nothing has run in it yet. */
  #end: number | undefined
  readonly #waiting: (() => void)[] = []

  /** @param now monotonic milliseconds */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Whether others are to have their turn first. @param now what the clock says */
  isOver(now: number): boolean {
    if (this.#end === undefined) {
      this.#end = now + SLICE_MS
      setImmediate(() => this.#turn())
    }
    return now > this.#end
  }

  /** Only while `isOver`. Resolves when it is the turn of whoever has waited longest. */
  next(): Promise<void> {
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  async #turn(): Promise<void> {
    this.#end = undefined
    while (this.#waiting.length > 0 && !this.isOver(this.#now())) {
      this.#waiting.shift()!()
      // It does its work before this goes on.
      await undefined
    }
  }
}
