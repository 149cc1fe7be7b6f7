/** What the long commands share: `--short`, `--seed S`, `--seconds N`, and the random numbers of a seed. */
import { parseArgs } from 'node:util'

export type RunOptions = {
  /** The form that CI runs. */
  readonly isShort: boolean
  readonly seed: number
  /** How long the command may load what it tests. */
  readonly seconds: number
  /** `--seconds` was given: what has no time left is done less often. */
  readonly isTimed: boolean
  /** What was given of a command's own flags. */
  readonly own: Readonly<Record<string, string | boolean | undefined>>
  /** [0, 1), the same numbers for the same seed. */
  readonly random: () => number
}

/** Reads the command line and says in one line what is run. @throws for a flag that is none of these, and for a number that is none. */
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

/** The generator of that name, by Tommy Ettinger (public domain). */
export function mulberry32(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
