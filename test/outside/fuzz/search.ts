/**
 * The search makes one case after another. Each has its own random numbers, so that it does not
 * depend on earlier cases.
 */

import { mulberry32 } from '../../kit/run-options.ts'
import { diceOf } from '../cost/random.ts'
import type { FuzzCase } from './case.ts'
import { corpusTests } from './corpus.ts'
import { type Difference, differenceOf, type Pair } from './differ.ts'
import { precompileInputs } from './precompile-inputs.ts'
import { caseOf } from './scenario.ts'
import { shrunk } from './shrink.ts'
import { swept } from './sweep.ts'

export type Finding = {
  readonly index: number
  /** Findings of one cause share this text; later ones of the same kind are not shrunk. */
  readonly kind: string
  readonly isNew: boolean
  readonly one: FuzzCase
  readonly difference: Difference
}

/** A search reads this many packs of state tests. */
const PACKS = 6
/** One case in this many is swept with every gas limit, the others with a few limits. */
const FULL_SWEEP_EVERY = 10
const POINTS = 4

export type SearchOptions = {
  readonly seed: number
  readonly now: () => number
  /** The time limit of shrinking a finding. */
  readonly shrinkMs: number
}

export function search(pair: Pair, { seed, now, shrinkMs }: SearchOptions) {
  const corpus = corpusTests(diceOf(mulberry32(seed)), PACKS)
  const precompiles = precompileInputs()
  const kinds = new Set<string>()
  let index = -1
  let runs = 0
  return {
    /** Counts the compared runs of the engines. */
    runs: () => runs,
    /** Tries the next case; undefined: the engines agree. */
    async next(): Promise<Finding | undefined> {
      index++
      const dice = diceOf(mulberry32(seedOf(seed, index)))
      const plain = caseOf({ dice, corpus, precompiles })
      const points = index % FULL_SWEEP_EVERY === 0 ? undefined : POINTS
      const one = await swept(pair.yardstick, plain, { dice, points })
      runs += one.steps.filter((step) => step.do === 'run').length
      const difference = await differenceOf(pair, one)
      if (difference === undefined) return undefined
      const kind = kindOf(difference)
      const isNew = !kinds.has(kind)
      kinds.add(kind)
      if (!isNew) return { index, kind, isNew, one, difference }
      const small = await shrunk(one, (other) => isSame(pair, other, difference), {
        now,
        untilMs: now() + shrinkMs,
      })
      const textOf = (await differenceOf(pair, small)) ?? difference
      return { index, kind, isNew, one: small, difference: textOf }
    },
  }
}

const seedOf = (seed: number, index: number): number =>
  Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)

/** Whether a smaller case shows the same kind of difference. */
async function isSame(pair: Pair, one: FuzzCase, wanted: Difference): Promise<boolean> {
  const found = await differenceOf(pair, one)
  return found !== undefined && kindOf(found) === kindOf(wanted)
}

/** Formats the responses of both engines without numbers. */
const kindOf = ({ yardstick, tested }: Difference): string =>
  [yardstick, tested]
    .map((lines) => lines.split(' | ')[0]!)
    .map((line) =>
      line
        .trim()
        .replace(/0x[0-9a-f]*|\b[0-9a-f]*\d[0-9a-f]*\b/g, '#')
        .slice(0, 120),
    )
    .map((line) => line.replace(/(# ?)+/g, '# '))
    .join(' / ')
