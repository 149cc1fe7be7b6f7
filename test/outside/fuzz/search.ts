/** The search: a case after another, each from dice of its own, so that one is the same whatever came before it. */

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
  /** What findings of one cause have in common; of the second and later ones nothing is shrunk. */
  readonly kind: string
  readonly isNew: boolean
  readonly one: FuzzCase
  readonly difference: Difference
}

/** Packs of state tests that a search reads. */
const PACKS = 6
/** One case in so many is done with every limit of gas, the others with a few. */
const FULL_SWEEP_EVERY = 10
const POINTS = 4

export type SearchOptions = {
  readonly seed: number
  readonly now: () => number
  /** How long a finding may be shrunk. */
  readonly shrinkMs: number
}

export function search(pair: Pair, { seed, now, shrinkMs }: SearchOptions) {
  const corpus = corpusTests(diceOf(mulberry32(seed)), PACKS)
  const precompiles = precompileInputs()
  const kinds = new Set<string>()
  let index = -1
  let runs = 0
  return {
    /** Runs of the engines that were compared. */
    runs: () => runs,
    /** undefined: the engines agree on the next case. */
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
      const shown = (await differenceOf(pair, small)) ?? difference
      return { index, kind, isNew, one: small, difference: shown }
    },
  }
}

const seedOf = (seed: number, index: number): number =>
  Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)

/** A smaller case must show the same. */
async function isSame(pair: Pair, one: FuzzCase, wanted: Difference): Promise<boolean> {
  const found = await differenceOf(pair, one)
  return found !== undefined && kindOf(found) === kindOf(wanted)
}

/** What both say, without its numbers. */
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
