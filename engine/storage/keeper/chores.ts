/** Work of the keeper that waits for nobody: a shorter log, less of what was fetched, fewer old promises. Done in slices. */

export type Chore = {
  isDue(): boolean
  /** Each `next` is a small piece of it. */
  begin(): Generator<undefined, void>
}

export type Chores = {
  hasWork(): boolean
  /** One slice of the first chore that has something to do. False: none has. @param isFinished runs pieces for a slice */
  run(isFinished: (pieces: Iterator<undefined, void>) => boolean): boolean
}

/** The most urgent first. */
export function createChores(all: readonly Chore[]): Chores {
  const begun = new Map<Chore, Iterator<undefined, void>>()
  const hasWork = (chore: Chore) => begun.has(chore) || chore.isDue()
  return {
    hasWork: () => all.some(hasWork),
    run(isFinished) {
      const chore = all.find(hasWork)
      if (chore === undefined) return false
      const pieces = begun.get(chore) ?? chore.begin()
      begun.set(chore, pieces)
      if (isFinished(pieces)) begun.delete(chore)
      return true
    },
  }
}
