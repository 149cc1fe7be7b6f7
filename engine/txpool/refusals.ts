/** Transactions that the sequencer refused for good: whoever sends one again within a while is told why. */

export type Refusals = {
  add(key: string, reason: string): void
  reasonOf(key: string): string | undefined
}

/** The newest `refused` of them, each for `refusedMs`. */
export function createRefusals(
  { refused, refusedMs }: { readonly refused: number; readonly refusedMs: number },
  now: () => number,
): Refusals {
  const known = new Map<string, { readonly reason: string; readonly untilMs: number }>()
  return {
    add(key, reason) {
      known.set(key, { reason, untilMs: now() + refusedMs })
      if (known.size > refused) known.delete(known.keys().next().value!)
    },
    reasonOf(key) {
      const found = known.get(key)
      return found !== undefined && now() < found.untilMs ? found.reason : undefined
    },
  }
}
