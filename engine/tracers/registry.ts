/**
 * The tracers by name, with the two smallest. 4byteTracer gives the number of calls of each
 * selector, by length of the data. noopTracer runs the transaction and reports nothing.
 */
import { bytesToHex } from '../primitives/hex.ts'
import { callTracer } from './call.ts'
import { flatCallTracer } from './flat-call.ts'
import { objectOf } from './json.ts'
import { muxTracer } from './mux.ts'
import { prestateTracer } from './prestate.ts'
import { type StructLogOptions, structLogger } from './struct-log.ts'
import { type TraceContext, type Tracer, TracerError } from './types.ts'

type MakeTracer = (config: unknown, context: TraceContext) => Tracer

const TRACERS: Readonly<Record<string, MakeTracer>> = {
  callTracer,
  flatCallTracer,
  prestateTracer,
  '4byteTracer': fourByteTracer,
  muxTracer: (config, context) =>
    muxTracer(
      Object.entries(objectOf(config)).map(([name, inner]) => [
        name,
        namedTracer(name, inner, context),
      ]),
      context,
    ),
  noopTracer,
}

export const TRACER_NAMES: readonly string[] = Object.keys(TRACERS)

/** The tracer of a request: one by name, or the struct logger. */
export type TracerChoice =
  | { readonly name: string; readonly config: unknown }
  | { readonly name: undefined; readonly options: StructLogOptions }

/** @throws {TracerError} for an unknown name, and for a configuration that the tracer refuses */
export const makeTracer = (choice: TracerChoice, context: TraceContext): Tracer =>
  choice.name === undefined
    ? structLogger(choice.options, context)
    : namedTracer(choice.name, choice.config, context)

function namedTracer(name: string, config: unknown, context: TraceContext): Tracer {
  const make = Object.hasOwn(TRACERS, name) ? TRACERS[name] : undefined
  if (make === undefined)
    throw new TracerError(
      `unknown tracer ${JSON.stringify(name.slice(0, 60))}, expected one of ${TRACER_NAMES.join(', ')}`,
      true,
    )
  return make(config, context)
}

const CALLS = new Set(['CALL', 'CALLCODE', 'DELEGATECALL', 'STATICCALL'])
/** Approximate bytes of an entry. */
const ENTRY_BYTES = 32

/** Counts the calls of each selector, by length of the data. */
function fourByteTracer(_config: unknown, context: TraceContext): Tracer {
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

/** Runs the transaction and reports nothing. */
function noopTracer(_config: unknown, { output }: TraceContext): Tracer {
  return { sink: {}, writeResult: () => output.write('{}') }
}
