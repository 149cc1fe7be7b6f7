/** Options object of debug_trace*: tracer, switches and timeout. */
import type { TracerChoice } from '../../../engine/tracers/registry.ts'
import { index64 } from '../../json/codecs.ts'
import {
  boolean,
  type Codec,
  object,
  type PlainCodec,
  SchemaError,
  type TypeOf,
  text,
} from '../../json/schema.ts'
import { anything, blockOverride, stateOverride } from './overrides.ts'

/** A JSON integer. */
const count: Codec<number> = {
  decode(wire) {
    if (typeof wire !== 'number' || !Number.isSafeInteger(wire))
      throw new SchemaError(typeof wire === 'number' ? `number ${wire}` : typeof wire, 'int')
    return wire
  },
  encode: (value) => value,
  schema: { type: 'integer' },
}

const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
}
const DURATION = /^(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/

/** Decodes Go's durations ("5s", "1m30s", "300ms") to milliseconds. */
export const duration: PlainCodec<number> = {
  decode(wire) {
    const given = text('duration', 40).decode(wire)
    if (given === '0') return 0
    let milliseconds = 0
    let rest = given.startsWith('+') ? given.slice(1) : given
    do {
      const part = DURATION.exec(rest)
      if (part === null) throw new SchemaError(`time: invalid duration ${JSON.stringify(given)}`)
      milliseconds += Number(part[1]) * UNITS[part[2]!]!
      rest = rest.slice(part[0].length)
    } while (rest !== '')
    return milliseconds
  },
  encode: (value) => `${value}ms`,
  schema: { title: 'duration', type: 'string' },
}

const shared = {
  tracer: text('tracer', 64),
  // The tracer decodes its own config.
  tracerConfig: anything,
  timeout: duration,
  enableMemory: boolean,
  disableStack: boolean,
  disableStorage: boolean,
  enableReturnData: boolean,
  limit: count,
}
export const traceConfig = object('TraceConfig', shared)
export const traceCallConfig = object('TraceCallConfig', {
  ...shared,
  stateOverrides: stateOverride,
  blockOverrides: blockOverride,
  txIndex: index64,
})
export type TraceCallConfig = TypeOf<typeof traceCallConfig>
export type TraceConfig = TypeOf<typeof traceConfig>

export const choiceOf = (config: TraceConfig = {}): TracerChoice =>
  config.tracer === undefined
    ? {
        name: undefined,
        options: {
          enableMemory: config.enableMemory ?? false,
          disableStack: config.disableStack ?? false,
          disableStorage: config.disableStorage ?? false,
          enableReturnData: config.enableReturnData ?? false,
          limit: Math.max(0, config.limit ?? 0),
        },
      }
    : { name: config.tracer, config: config.tracerConfig }
