/** This recorder notes the gas that a run had left before each of its steps. */
import type { TraceStep } from '../../../engine/evm/engine.ts'

/** The gas left before each step of the outermost frame, and the number of all steps. */
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
      // A limit that leaves this much gives SSTORE exactly the gas that it refuses; the sweep also
      // tries one more.
      if (op === SSTORE) left.push(Number(gas) - SENTRY_GAS)
    },
    result: (gas) => ({ gas, left, steps }),
  }
}

const SSTORE = 0x55
/** SSTORE demands more gas than this (EIP-2200). */
const SENTRY_GAS = 2_300
