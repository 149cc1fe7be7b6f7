/** What is being received: bytes of bodies and messages that are not complete yet, of each address and of all. */

export interface Intake {
  /** Counts them, or none of them: false where the address or all together would hold more than they may. */
  take(key: string, bytes: number): boolean
  /** The same key and as many bytes as were taken. */
  give(key: string, bytes: number): void
  /** Of all. */
  readonly bytes: number
}

export type IntakeLimits = {
  readonly bodiesBytes: number
  readonly bodiesBytesPerClient: number
}

/** Keys are `limiterKey`s. An address is forgotten when nothing of it is being received. */
export function createIntake(limits: IntakeLimits): Intake {
  const held = new Map<string, number>()
  let total = 0
  return {
    take(key, bytes) {
      const before = held.get(key) ?? 0
      if (before + bytes > limits.bodiesBytesPerClient) return false
      if (total + bytes > limits.bodiesBytes) return false
      held.set(key, before + bytes)
      total += bytes
      return true
    },
    give(key, bytes) {
      const left = (held.get(key) ?? 0) - bytes
      if (left > 0) held.set(key, left)
      else held.delete(key)
      total -= bytes
    },
    get bytes() {
      return total
    },
  }
}
