/** The port between two threads: what is sent comes in its order, after a while. */
import type { VirtualClock } from './clock.ts'
import type { Random } from './random.ts'

export class Lane {
  readonly #clock: VirtualClock
  readonly #random: Random
  readonly #isClosed: () => boolean
  #lastMs = 0

  constructor(clock: VirtualClock, random: Random, isClosed: () => boolean) {
    this.#clock = clock
    this.#random = random
    this.#isClosed = isClosed
  }

  send(arrive: () => void): void {
    const { now } = this.#clock
    const ms = this.#random.chance(0.05) ? this.#random.below(60) : this.#random.below(3)
    this.#lastMs = Math.max(this.#lastMs, now() + ms)
    this.#clock.after(this.#lastMs - now(), () => {
      if (!this.#isClosed()) arrive()
    })
  }
}
