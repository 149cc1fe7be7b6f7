/** The valid name that a mistyped one most likely meant. */
import { reasonGone } from './gone.ts'

/** @returns the name that is meant, or undefined where none is near. Of equally near ones the shortest, then the first. */
export function nearest(name: string, names: Iterable<string>): string | undefined {
  let best: string | undefined
  let fewest = Number.POSITIVE_INFINITY
  for (const candidate of names) {
    const cost = costOf(bare(name), bare(candidate))
    const isShorter = cost === fewest && best !== undefined && candidate.length < best.length
    if (cost < fewest || isShorter) [best, fewest] = [candidate, cost]
  }
  return best
}

/**
 * The end of a line about an unknown name.
 * @param otherwise says where the names are listed, for a name that none is near
 */
export function hint(name: string, names: Iterable<string>, otherwise: string): string {
  const reason = reasonGone(name)
  if (reason !== undefined) return `; it is gone: ${reason}`
  const meant = nearest(name, names)
  return meant === undefined ? `; ${otherwise}` : `; nearest: ${meant}`
}

/** What every flag or every variable begins with would hide how little else two of them share. */
const bare = (name: string) => name.replace(/^(-+|FLASHNODE_)/, '')

/** Whoever types --limt means one of --limit-…, and not --host: words that are missing at the end, or at the begin, cost less than letters. */
const MISSING_AT_END = 1 / 4
const MISSING_AT_BEGIN = 1
/** Whoever types --data means --datadir, and --chain-id in a command without it means --chain. */
const CUT_OFF = 1
const TOO_MANY_WORDS = 2
const MIN_CUT = 3

/** Wrong letters that a word may have: a third of it, because more make another word. */
const mayBeWrong = (name: string): number => Math.max(1, Math.floor(name.length / 3))

/** Infinite where the candidate is not near. */
function costOf(name: string, candidate: string): number {
  const words = candidate.split(/[-_]/)
  const mark = candidate.includes('_') ? '_' : '-'
  let least = wrongLetters(name, candidate)
  const consider = (part: string, missing: number) => {
    least = Math.min(least, wrongLetters(name, part) + missing)
  }
  for (let missing = 1; missing < words.length; missing++) {
    consider(words.slice(0, -missing).join(mark), missing * MISSING_AT_END)
    consider(words.slice(missing).join(mark), missing * MISSING_AT_BEGIN)
  }
  if (name.length >= MIN_CUT && candidate.startsWith(name)) least = Math.min(least, CUT_OFF)
  if (name.startsWith(`${candidate}${mark}`)) least = Math.min(least, TOO_MANY_WORDS)
  return least
}

function wrongLetters(name: string, part: string): number {
  const edits = editDistance(name, part)
  return edits <= mayBeWrong(name) ? edits : Number.POSITIVE_INFINITY
}

/** Damerau and Levenshtein, three rows: two letters that are swapped are one edit. A long text is compared by its start. */
function editDistance(a: string, b: string): number {
  const [from, to] = [a.slice(0, 64).toLowerCase(), b.slice(0, 64).toLowerCase()]
  let before: number[] = []
  let above = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwapped =
        row > 1 &&
        column > 1 &&
        from[row - 1] === to[column - 2] &&
        from[row - 2] === to[column - 1]
      const replaced = above[column - 1]! + (isSame ? 0 : 1)
      const swapped = isSwapped ? before[column - 2]! + 1 : Number.POSITIVE_INFINITY
      const least = Math.min(replaced, swapped, above[column]! + 1, current[column - 1]! + 1)
      current.push(least)
    }
    before = above
    above = current
  }
  return above[to.length]!
}
