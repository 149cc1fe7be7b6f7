/** Random numbers of a seed: each part of a history draws from a stream of its own, so that what one part does moves no other's luck. */
import { mulberry32 } from '../../kit/run-options.ts'

export class Random {
  readonly #next: () => number

  constructor(seed: number, stream: string) {
    let mixed = seed | 0
    for (const letter of stream) mixed = Math.imul(mixed ^ letter.charCodeAt(0), 0x9e37_79b1)
    this.#next = mulberry32(mixed)
    this.#next()
  }

  /** A whole number from 0 up to but not including `most`. */
  below(most: number): number {
    return Math.floor(this.#next() * most)
  }
  between(least: number, most: number): number {
    return least + this.below(most - least + 1)
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
