/** Counts the permits that each client and all clients together have taken. */
export interface ConcurrencyLimit {
  /**
   * Takes a permit and returns a function that gives the permit back, once. undefined: the client's
   * limit or the total limit is reached.
   */
  take(client: string): (() => void) | undefined
  /** Tells whether the client has reached its limit. */
  isFull(client: string): boolean
  /** Permits taken by all threads that count together. */
  readonly total: number
  /** Permits taken by this thread. */
  readonly ownCount: number
}
export type ConcurrencyBounds = { readonly perClient: number; readonly total: number }

export function createConcurrencyLimit(limits: ConcurrencyBounds): ConcurrencyLimit {
  const counts = new Map<string, number>()
  let total = 0
  return {
    take(client) {
      const own = counts.get(client) ?? 0
      if (own >= limits.perClient || total >= limits.total) return undefined
      counts.set(client, own + 1)
      total++
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        total--
        const left = (counts.get(client) ?? 1) - 1
        if (left === 0) counts.delete(client)
        else counts.set(client, left)
      }
    },
    isFull: (client) => (counts.get(client) ?? 0) >= limits.perClient,
    get total() {
      return total
    },
    get ownCount() {
      return total
    },
  }
}

/** Opens a limit that no other thread shares, so the kind is ignored. */
export const openLocalConcurrencyLimit = (
  _kind: string,
  limits: ConcurrencyBounds,
): ConcurrencyLimit => createConcurrencyLimit(limits)
