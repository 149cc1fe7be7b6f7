/** Transactions that are to be in no block, although they were in one. */
export type Unwanted = {
  add(key: string): void
  /** Somebody has sent it again. */
  delete(key: string): void
  has(key: string): boolean
}

/** @param most that are remembered: the oldest is forgotten */
export function createUnwanted(most: number): Unwanted {
  const keys = new Set<string>()
  return {
    add(key) {
      keys.delete(key)
      keys.add(key)
      if (keys.size > most) keys.delete(keys.keys().next().value!)
    },
    delete: (key) => void keys.delete(key),
    has: (key) => keys.has(key),
  }
}
