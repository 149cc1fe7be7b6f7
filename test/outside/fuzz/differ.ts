/** This module runs two engines on one case and finds their first difference. */
import type { Engine } from '../../../engine/evm/engine.ts'
import type { FuzzCase, Observation } from './case.ts'
import { observe } from './observe.ts'
import { stateOf } from './world.ts'

export type Pair = {
  /** This engine counts as right until somebody has checked the difference. */
  readonly yardstick: Engine
  readonly tested: Engine
  /** Runs of the tested engine that are reverted before the one that counts. */
  readonly repeats: number
}
export type Difference = {
  /** The step and its index. */
  readonly step: string
  readonly yardstick: string
  readonly tested: string
}

/** Finds the first difference; undefined: the engines agree, and neither threw. */
export async function differenceOf(pair: Pair, one: FuzzCase): Promise<Difference | undefined> {
  const state = stateOf(one)
  const right = await observe(pair.yardstick, one, { state })
  const tested = await observe(pair.tested, one, { state, repeats: pair.repeats })
  let step = ''
  for (let at = 0; at < Math.max(right.length, tested.length); at++) {
    const [a = '(nothing)', b = '(nothing)'] = [right[at], tested[at]]
    if (a !== b || FAULTS.test(a))
      return { step, yardstick: excerpt(right, at), tested: excerpt(tested, at) }
    if (a.startsWith('# ')) step = a
  }
  return undefined
}

/** Formats some lines, starting at the difference. */
const excerpt = (lines: Observation, at: number): string =>
  lines.length <= at ? '(nothing)' : lines.slice(at, at + PRINTED_LINES).join(' | ')
const PRINTED_LINES = 5

/** No engine may report these lines, even if both do. */
const FAULTS =
  /^(threw |missing still|stopped and changed|what misses |a run before it differs|run \d+ differs)/
