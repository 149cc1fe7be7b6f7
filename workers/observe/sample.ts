/** Limits repeated reports: one of each kind per interval, with the number of those left out. */

/**
 * Creates the sampler.
 * @param report takes the first message of a kind, and later the newest with the number of those
 * left out
 */
export function createSampler(
  everyMs: number,
  now: () => number,
  report: (message: string) => void,
): (kind: string, message: string) => void {
  /** Kinds are few, and all of them ours. */
  const kinds = new Map<string, { saidAt: number; unsaid: number }>()
  return (kind, message) => {
    const known = kinds.get(kind)
    if (known !== undefined && now() - known.saidAt < everyMs) {
      known.unsaid++
      return
    }
    const unsaid = known?.unsaid ?? 0
    kinds.set(kind, { saidAt: now(), unsaid: 0 })
    report(unsaid === 0 ? message : `${message} (and ${unsaid} before it)`)
  }
}
