/** The same case with every run done before with less gas: as much as each prefix of its steps takes, one less and one more. */
import type { Engine } from '../../../engine/evm/engine.ts'
import type { Dice } from '../cost/random.ts'
import type { CaseStep, FuzzCase } from './case.ts'
import type { GasOfRun } from './gas.ts'
import { observeGas } from './observe.ts'

/** Steps of the reference engine that a case may take for it, and limits of a run that is swept as a whole. */
const MOST_STEPS = 6_000
const MOST_LIMITS = 240

/** @param points limits for each run; undefined: all, where the run is short enough */
export async function swept(
  engine: Engine,
  one: FuzzCase,
  { dice, points }: { readonly dice: Dice; readonly points: number | undefined },
): Promise<FuzzCase> {
  const costs = await observeGas(engine, one)
  const steps: CaseStep[] = []
  let marks = 0
  for (const [at, step] of one.steps.entries()) {
    const found = costs.get(at)
    if (step.do === 'run' && found !== undefined)
      for (const gas of limits(found, dice, points))
        steps.push(
          { do: 'checkpoint' },
          { do: 'run', message: { ...step.message, gas } },
          { do: 'revert', to: marks },
        )
    if (step.do === 'checkpoint') marks++
    if (step.do === 'revert') marks = step.to
    steps.push(step)
  }
  return { ...one, steps }
}

function limits({ gas, left, steps }: GasOfRun, dice: Dice, points: number | undefined): number[] {
  const sums = new Set<number>()
  for (const rest of left) for (const more of [-1, 0, 1]) sums.add(gas - rest + more)
  const all = [...sums].filter((limit) => limit >= 0 && limit < gas).toSorted((a, b) => a - b)
  const most = Math.min(points ?? MOST_LIMITS, Math.floor(MOST_STEPS / Math.max(1, steps)))
  if (all.length <= most) return all
  return Array.from({ length: most }, () => dice.pick(all))
}
