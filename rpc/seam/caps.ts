/** Counts what every client and all of them hold of something. */
export interface Caps {
  /** Undefined when the client, or all together, have as many as they may; else gives the place back, once. */
  take(client: string): (() => void) | undefined
  readonly total: number
}

export function createCaps(limits: { readonly perClient: number; readonly total: number }): Caps {
  const held = new Map<string, number>()
  let total = 0
  return {
    take(client) {
      const own = held.get(client) ?? 0
      if (own >= limits.perClient || total >= limits.total) return undefined
      held.set(client, own + 1)
      total++
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        total--
        const left = (held.get(client) ?? 1) - 1
        if (left === 0) held.delete(client)
        else held.set(client, left)
      }
    },
    get total() {
      return total
    },
  }
}
