/** The valid name that a mistyped one most likely meant. */

/** undefined only for an empty list. Of equally near ones the shortest, then the first. */
export function nearest(name: string, names: Iterable<string>): string | undefined {
  let best: string | undefined
  let fewest = Number.POSITIVE_INFINITY
  for (const candidate of names) {
    const edits = distance(bare(name), bare(candidate))
    const isShorter = edits === fewest && candidate.length < best!.length
    if (edits < fewest || isShorter) [best, fewest] = [candidate, edits]
  }
  return best
}

/** What every flag or every variable begins with would hide how little else two of them share. */
const bare = (name: string) => name.replace(/^(-+|FLASHNODE_)/, '')

/** Whoever types --limt means one of --limit-…, and not --host: words that are missing at the end, or at the begin, cost less than letters. */
const MISSING_AT_END = 1 / 4
const MISSING_AT_BEGIN = 1

function distance(name: string, candidate: string): number {
  const words = candidate.split(/[-_]/)
  const mark = candidate.includes('_') ? '_' : '-'
  let least = editDistance(name, candidate)
  for (let missing = 1; missing < words.length; missing++) {
    const head = words.slice(0, -missing).join(mark)
    const tail = words.slice(missing).join(mark)
    least = Math.min(
      least,
      editDistance(name, head) + missing * MISSING_AT_END,
      editDistance(name, tail) + missing * MISSING_AT_BEGIN,
    )
  }
  return least
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
