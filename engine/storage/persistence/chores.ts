/**
 * Background work of the persistence thread in slices, so that more urgent work never waits longer
 * than one slice: a shorter log, fewer fetched rows, fewer old promises.
 */

export type Chore = {
  isDue(): boolean
  /** Starts the work; each `next` is a small piece. */
  start(): Generator<undefined, void>
}

export type Chores = {
  hasWork(): boolean
  /**
   * Runs one slice of the first chore with work; false if there is none.
   * @param isFinished runs pieces for a slice
   */
  run(isFinished: (pieces: Iterator<undefined, void>) => boolean): boolean
}

/** Combines chores, the most urgent first. */
export function createChores(all: readonly Chore[]): Chores {
  const started = new Map<Chore, Iterator<undefined, void>>()
  const hasWork = (chore: Chore) => started.has(chore) || chore.isDue()
  return {
    hasWork: () => all.some(hasWork),
    run(isFinished) {
      const chore = all.find(hasWork)
      if (chore === undefined) return false
      const pieces = started.get(chore) ?? chore.start()
      started.set(chore, pieces)
      if (isFinished(pieces)) started.delete(chore)
      return true
    },
  }
}

/**
 * Runs pieces for one slice, and stops when one more piece as long as the longest would not fit.
 * @returns true if no piece is left
 */
export function isFinished(
  pieces: Iterator<undefined, void>,
  { sliceMs, now }: { readonly sliceMs: number; readonly now: () => number },
): boolean {
  const start = now()
  let longest = 0
  for (let at = start; at + longest - start < sliceMs; ) {
    if (pieces.next().done === true) return true
    longest = Math.max(longest, now() - at)
    at = now()
  }
  return false
}
