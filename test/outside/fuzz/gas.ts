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
    step({ depth, gas, op }) {
      steps++
      if (depth !== 0) return
      left.push(Number(gas))
      // What leaves it just as much as it must not have, and one more.
      if (op === SSTORE) left.push(Number(gas) - SENTRY_GAS)
    },
    result: (gas) => ({ gas, left, steps }),
  }
}

const SSTORE = 0x55
/** SSTORE asks for more (EIP-2200). */
const SENTRY_GAS = 2_300
