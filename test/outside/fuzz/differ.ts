/** Two engines over one case: where they first say something different. */
import type { Engine } from '../../../engine/evm/engine.ts'
import type { FuzzCase, Observation } from './case.ts'
import { observe } from './observe.ts'
import { stateOf } from './world.ts'

export type Pair = {
  /** Whose answer is right until somebody has looked. */
  readonly yardstick: Engine
  readonly tested: Engine
  /** Runs of the tested engine that are taken back before the one that counts. */
  readonly repeats: number
}
export type Difference = {
  /** What was done, and where. */
  readonly step: string
  readonly yardstick: string
  readonly tested: string
}

/** undefined: they agree, and neither threw. */
export async function differenceOf(pair: Pair, one: FuzzCase): Promise<Difference | undefined> {
  const state = stateOf(one)
  const right = await observe(pair.yardstick, one, { state })
  const tested = await observe(pair.tested, one, { state, repeats: pair.repeats })
  let step = ''
  for (let at = 0; at < Math.max(right.length, tested.length); at++) {
    const [a = '(nothing)', b = '(nothing)'] = [right[at], tested[at]]
    if (a !== b || FAULTS.test(a))
      return { step, yardstick: told(right, at), tested: told(tested, at) }
    if (a.startsWith('# ')) step = a
  }
  return undefined
}

/** From the difference on. */
const told = (lines: Observation, at: number): string =>
  lines.length <= at ? '(nothing)' : lines.slice(at, at + SHOWN_LINES).join(' | ')
const SHOWN_LINES = 5

/** What no engine may say, even if both do. */
const FAULTS =
  /^(threw |missing still|stopped and changed|what misses |a run before it differs|run \d+ differs)/
