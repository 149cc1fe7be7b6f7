/**
 * A sweep repeats every run of a case with less gas first. The limits are the gas after each prefix
 * of its steps, one less and one more.
 */
import type { Engine } from '../../../engine/evm/engine.ts'
import type { Dice } from '../cost/random.ts'
import type { CaseStep, FuzzCase } from './case.ts'
import type { GasOfRun } from './gas.ts'
import { observeGas } from './observe.ts'

/**
 * A case may take this many steps of the reference engine to be swept; a fully swept run may have
 * this many limits.
 */
const MAX_STEPS = 6_000
const MAX_LIMITS = 240

/**
 * Sweeps a case.
 * @param points limits for each run; undefined: all, where the run is short enough
 */
export async function swept(
  engine: Engine,
  one: FuzzCase,
  { dice, points }: { readonly dice: Dice; readonly points: number | undefined },
): Promise<FuzzCase> {
  const costs = await observeGas(engine, one)
  const steps: CaseStep[] = []
  let checkpoints = 0
  for (const [at, step] of one.steps.entries()) {
    const found = costs.get(at)
    if (step.do === 'run' && found !== undefined)
      for (const gas of limits(found, dice, points))
        steps.push(
          { do: 'checkpoint' },
          { do: 'run', message: { ...step.message, gas } },
          { do: 'revert', to: checkpoints },
        )
    if (step.do === 'checkpoint') checkpoints++
    if (step.do === 'revert') checkpoints = step.to
    steps.push(step)
  }
  return { ...one, steps }
}

function limits({ gas, left, steps }: GasOfRun, dice: Dice, points: number | undefined): number[] {
  const sums = new Set<number>()
  for (const rest of left) for (const more of [-1, 0, 1]) sums.add(gas - rest + more)
  const all = [...sums].filter((limit) => limit >= 0 && limit < gas).toSorted((a, b) => a - b)
  const max = Math.min(points ?? MAX_LIMITS, Math.floor(MAX_STEPS / Math.max(1, steps)))
  if (all.length <= max) return all
  return Array.from({ length: max }, () => dice.pick(all))
}
