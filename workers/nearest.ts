/** The valid name that a mistyped one most likely meant. */

/** undefined only for an empty list. Ties go to the first. */
export function nearest(name: string, names: Iterable<string>): string | undefined {
  let best: string | undefined
  let fewest = Number.POSITIVE_INFINITY
  for (const candidate of names) {
    const edits = editDistance(name, candidate)
    if (edits < fewest) [best, fewest] = [candidate, edits]
  }
  return best
}

/** Levenshtein, two rows; a long text is compared by its start, which is enough to suggest. */
function editDistance(a: string, b: string): number {
  const [from, to] = [a.slice(0, 64).toLowerCase(), b.slice(0, 64).toLowerCase()]
  let above = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const replaced = above[column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1)
      current.push(Math.min(replaced, above[column]! + 1, current[column - 1]! + 1))
    }
    above = current
  }
  return above[to.length]!
}
