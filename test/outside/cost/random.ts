/** Makes choices from a seeded source of numbers. */
export type Dice = {
  /** Gives a whole number from 0 to below `n`. */
  int(n: number): number
  chance(probability: number): boolean
  pick<T>(from: readonly T[]): T
  /** Gives a whole number between both; each order of magnitude is equally likely. */
  size(from: number, to: number): number
  some<T>(from: readonly T[], probability: number): T[]
}

export function diceOf(random: () => number): Dice {
  const int = (n: number) => Math.floor(random() * n)
  return {
    int,
    chance: (probability) => random() < probability,
    pick: (from) => from[int(from.length)]!,
    size: (from, to) => Math.round(from * (to / from) ** random()),
    some: (from, probability) => from.filter(() => random() < probability),
  }
}
