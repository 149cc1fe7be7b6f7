/** Says one of a kind of trouble in a while, and how many there were. */

/** @param tell the message of the first, and later of the newest with how many were not said */
export function createSampler(
  everyMs: number,
  now: () => number,
  tell: (message: string) => void,
): (kind: string, message: string) => void {
  /** Kinds are ours, and few. */
  const kinds = new Map<string, { saidAt: number; unsaid: number }>()
  return (kind, message) => {
    const known = kinds.get(kind)
    if (known !== undefined && now() - known.saidAt < everyMs) {
      known.unsaid++
      return
    }
    const unsaid = known?.unsaid ?? 0
    kinds.set(kind, { saidAt: now(), unsaid: 0 })
    tell(unsaid === 0 ? message : `${message} (and ${unsaid} before it)`)
  }
}
