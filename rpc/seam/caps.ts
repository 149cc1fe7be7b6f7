/** Counts what every client and all of them hold of something. */
export interface Caps {
  /** Undefined when the client, or all together, have as many as they may; else gives the place back, once. */
  take(client: string): (() => void) | undefined
  /** Whether the client has as many as it may. */
  isFull(client: string): boolean
  /** Of all that are counted together. */
  readonly total: number
  /** Of them what this one has given. */
  readonly here: number
}
export type CapLimits = { readonly perClient: number; readonly total: number }

export function createCaps(limits: CapLimits): Caps {
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
    isFull: (client) => (held.get(client) ?? 0) >= limits.perClient,
    get total() {
      return total
    },
    get here() {
      return total
    },
  }
}

/** Of a front that shares none: what they are of makes no difference. */
export const openOwnCaps = (_kind: string, limits: CapLimits): Caps => createCaps(limits)
