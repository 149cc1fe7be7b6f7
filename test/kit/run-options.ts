/**
 * The long commands share these options: `--short`, `--seed S`, `--seconds N`, and the random
 * numbers of a seed.
 */
import { parseArgs } from 'node:util'

export type RunOptions = {
  /** CI runs the short form. */
  readonly isShort: boolean
  readonly seed: number
  /** The command may load the node under test for this long. */
  readonly seconds: number
  /** `--seconds` was given, so that checks for which no time is left run less often. */
  readonly isTimed: boolean
  /** The values of the command's own flags. */
  readonly own: Readonly<Record<string, string | boolean | undefined>>
  /** Gives a number in [0, 1), from the same sequence for the same seed. */
  readonly random: () => number
}

/**
 * Reads the command line and prints in one line what is run.
 * @throws for an unknown flag, and for a number that is invalid
 */
export function runOptions(
  name: string,
  seconds: { readonly full: number; readonly short: number },
  own: Readonly<Record<string, { readonly type: 'string' | 'boolean' }>> = {},
): RunOptions {
  const { values } = parseArgs({
    options: {
      ...own,
      short: { type: 'boolean', default: false },
      seed: { type: 'string' },
      seconds: { type: 'string' },
    },
  })
  const isShort = values.short
  const seed = numberOf('--seed', values.seed) ?? Date.now() % 1_000_000
  const given = numberOf('--seconds', values.seconds)
  const wanted = given ?? (isShort ? seconds.short : seconds.full)
  console.log(`${name}: ${wanted} s, seed ${seed}${isShort ? ', short' : ''}`)
  const isTimed = given !== undefined
  return { isShort, seed, seconds: wanted, isTimed, own: values, random: mulberry32(seed) }
}

function numberOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const number = Number(text)
  if (text.trim() === '' || !Number.isFinite(number) || number < 0)
    throw new Error(`${flag}: expected a number of 0 or more, got ${JSON.stringify(text)}`)
  return number
}

/** Makes the random generator mulberry32 by Tommy Ettinger (public domain). */
export function mulberry32(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
