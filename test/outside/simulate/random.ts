/**
 * Each part of a history draws random numbers from its own stream of the seed. No part changes the
 * draws of another.
 */
import { mulberry32 } from '../../kit/run-options.ts'

export class Random {
  readonly #next: () => number

  constructor(seed: number, stream: string) {
    let mixed = seed | 0
    for (const letter of stream) mixed = Math.imul(mixed ^ letter.charCodeAt(0), 0x9e37_79b1)
    this.#next = mulberry32(mixed)
    this.#next()
  }

  /** Gives a whole number from 0 to below `max`. */
  below(max: number): number {
    return Math.floor(this.#next() * max)
  }
  between(min: number, max: number): number {
    return min + this.below(max - min + 1)
  }
  chance(share: number): boolean {
    return this.#next() < share
  }
  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }
}
