/** A channel models the port between two threads: messages arrive in order, after a delay. */
import type { VirtualClock } from './clock.ts'
import type { Random } from './random.ts'

export class Channel {
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
