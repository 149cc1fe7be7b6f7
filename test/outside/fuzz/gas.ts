/** How much gas a run had left before each of its steps. */
import type { TraceStep } from '../../../engine/evm/engine.ts'

/** Gas left before each step of the outermost frame, and how many steps there were in all. */
export type GasOfRun = {
  readonly gas: number
  readonly left: readonly number[]
  readonly steps: number
}

/** Counts while a run is traced. */
export function gasRecorder(): { step(step: TraceStep): void; result(gas: number): GasOfRun } {
  const left: number[] = []
  let steps = 0
  return {
    step({ depth, gas }) {
      steps++
      if (depth === 0) left.push(Number(gas))
    },
    result: (gas) => ({ gas, left, steps }),
  }
}
