/** The tracers by name: one line each. */
import { callTracer } from './call.ts'
import { objectOf } from './config.ts'
import { flatCallTracer } from './flat-call.ts'
import { fourByteTracer } from './four-byte.ts'
import { muxTracer } from './mux.ts'
import { noopTracer } from './noop.ts'
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

/** What a request asks for: a tracer by name, or the struct logger. */
export type TracerChoice =
  | { readonly name: string; readonly config: unknown }
  | { readonly name: undefined; readonly options: StructLogOptions }

/** @throws {TracerError} for a name that is none, and for a configuration that the tracer refuses */
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
