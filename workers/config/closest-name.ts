/** Finds the valid name that a mistyped one most likely means, and explains former flags. */

/**
 * @returns the closest name, or undefined if all are too different; ties go to the shortest, then
 * the first
 */
export function closestName(name: string, names: Iterable<string>): string | undefined {
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
 * Makes the end of an error line about an unknown name.
 * @param otherwise text for a name without a close match; it says where the names are listed
 */
export function hint(name: string, names: Iterable<string>, otherwise: string): string {
  const former = formerFlag(name)
  if (former !== undefined) return `; ${former}`
  const meant = closestName(name, names)
  return meant === undefined ? `; ${otherwise}` : `; nearest: ${meant}`
}

/** Common prefixes are removed, because they would make all names look similar. */
const bare = (name: string) => name.replace(/^(-+|FLASHNODE_)/, '')

/** Missing words cost less than wrong letters: --limt means a --limit-… flag, and not --host. */
const MISSING_AT_END = 1 / 4
const MISSING_AT_START = 1
/**
 * These are the costs of two mistakes. The end of a name is missing (--data for --datadir), or the
 * name has extra words (--chain-id for --chain).
 */
const CUT_OFF = 1
const TOO_MANY_WORDS = 2
const MIN_CUT = 3

/** A word may have a third of its letters wrong; more make another word. */
const mayBeWrong = (name: string): number => Math.max(1, Math.floor(name.length / 3))

function costOf(name: string, candidate: string): number {
  const words = candidate.split(/[-_]/)
  const mark = candidate.includes('_') ? '_' : '-'
  let min = wrongLetters(name, candidate)
  const consider = (part: string, missing: number) => {
    min = Math.min(min, wrongLetters(name, part) + missing)
  }
  for (let missing = 1; missing < words.length; missing++) {
    consider(words.slice(0, -missing).join(mark), missing * MISSING_AT_END)
    consider(words.slice(missing).join(mark), missing * MISSING_AT_START)
  }
  if (name.length >= MIN_CUT && candidate.startsWith(name)) min = Math.min(min, CUT_OFF)
  if (name.startsWith(`${candidate}${mark}`)) min = Math.min(min, TOO_MANY_WORDS)
  return min
}

function wrongLetters(name: string, part: string): number {
  const edits = editDistance(name, part)
  return edits <= mayBeWrong(name) ? edits : Number.POSITIVE_INFINITY
}

/**
 * Damerau-Levenshtein distance with three rows: two swapped letters are one edit. Only the start of
 * a long text counts.
 */
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
      const min = Math.min(replaced, swapped, above[column]! + 1, current[column - 1]! + 1)
      current.push(min)
    }
    before = above
    above = current
  }
  return above[to.length]!
}

const EXECUTES = 'a follower executes every flashblock itself'
/** Removed flags of earlier versions, with the reason. */
const GONE: ReadonlyMap<string, string> = new Map([
  ['limit-near-turn-ms', 'every call runs in a worker'],
  ['apply', EXECUTES],
  ['apply-token-file', EXECUTES],
  ['apply-ms', EXECUTES],
  ['verify-share', EXECUTES],
  ['apply-message-bytes', EXECUTES],
  ['apply-held-diffs', EXECUTES],
  ['apply-held-bytes', EXECUTES],
])
const RENAMED: ReadonlyMap<string, string> = new Map([['behind', '--flashblock-lag']])

/**
 * Says why a former flag is gone, or its new name; undefined if no earlier version had this name.
 * @param name name of a flag, a variable, or a key of the configuration file
 */
function formerFlag(name: string): string | undefined {
  const flag = name
    .replace(/^(--|FLASHNODE_)/, '')
    .toLowerCase()
    .replaceAll('_', '-')
  const [reason, current] = [GONE.get(flag), RENAMED.get(flag)]
  if (reason !== undefined) return `it was removed: ${reason}`
  return current && `its new name is ${current}`
}
