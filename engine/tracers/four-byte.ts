/** 4byteTracer: how often each selector was called with data of each length. */
import { bytesToHex } from '../primitives/hex.ts'
import type { TraceContext, Tracer } from './types.ts'

const CALLS = new Set(['CALL', 'CALLCODE', 'DELEGATECALL', 'STATICCALL'])
/** About what one entry takes. */
const ENTRY_BYTES = 32

export function fourByteTracer(_config: unknown, context: TraceContext): Tracer {
  const { precompiles, budget, output } = context
  const counts = new Map<string, number>()
  return {
    sink: {
      enter(kind, _from, to, _value, _gas, input) {
        budget.step()
        if (input.length < 4 || !CALLS.has(kind) || to === undefined) return
        if (precompiles.has(bytesToHex(to))) return
        const key = `${bytesToHex(input.subarray(0, 4))}-${input.length - 4}`
        const count = counts.get(key)
        if (count === undefined) budget.spend(ENTRY_BYTES)
        counts.set(key, (count ?? 0) + 1)
      },
    },
    writeResult() {
      const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1))
      output.write(JSON.stringify(Object.fromEntries(sorted)))
    },
  }
}
