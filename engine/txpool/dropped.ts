/**
 * Remembers dropped transactions of two kinds. The sequencer refused some for good, and a repeated
 * submission gets the reason. Others must not return to a block, although a block had them.
 */

/** Transactions that the sequencer refused for good, with its reasons. */
export type Refusals = {
  add(key: string, reason: string): void
  reasonOf(key: string): string | undefined
}

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

/** Transactions that must not return to a block, although a block had them. */
export type Unwanted = {
  add(key: string): void
  /** Called when the transaction is submitted again. */
  delete(key: string): void
  has(key: string): boolean
}

/** @param max maximum number of transactions; the oldest is forgotten */
export function createUnwanted(max: number): Unwanted {
  const keys = new Set<string>()
  return {
    add(key) {
      keys.delete(key)
      keys.add(key)
      if (keys.size > max) keys.delete(keys.keys().next().value!)
    },
    delete: (key) => void keys.delete(key),
    has: (key) => keys.has(key),
  }
}
