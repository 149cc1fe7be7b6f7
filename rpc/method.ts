/** What a JSON-RPC method is: one exported constant, made by `frontMethod` or `poolMethod`. */
import type { ChainView, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import type { TraceOutput } from '../engine/tracers/types.ts'
import type { BasisOf } from './basis.ts'
import { invalidArgument, missingValue, tooManyArguments } from './errors.ts'
import type { PoolReply } from './executor.ts'
import type { Limits } from './limits.ts'
import { type Codec, type JsonSchema, SchemaError } from './schema.ts'
import type { FrontServices } from './services.ts'

/** `front` methods answer from memory or by a point read; `pool` methods run the EVM or scan. Lanes bound each other (hot-path.md). */
export type Runs = 'front' | 'call' | 'trace' | 'logs' | 'sidecar'

/** What every handler gets, on the front and in a worker alike. */
export type MethodContext = {
  /** Leased at the first use, the same for the whole batch. */
  readonly view: ChainView
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: Limits
  /** True once the request's deadline has passed or its client has gone: long work polls it. */
  readonly isExpired: () => boolean
}
/** Handlers in a worker may write their result where it goes out in pieces, instead of giving it. */
export type PoolContext = MethodContext & { readonly output: TraceOutput }
/** Front handlers also get the services that live there. */
export type FrontContext = MethodContext & {
  readonly services: FrontServices
  /** Who asks: for per-client limits, subscriptions and filters. */
  readonly client: Client
  /** Reads the newest view for the length of one synchronous call, for methods that wait: the request's own may be older than the event. */
  readonly readNewest: <T>(read: (view: ChainView) => T) => T
  /** Runs a pool method for this request, at the newest record. */
  readonly callPool: (method: Method, params: readonly unknown[]) => Promise<PoolReply>
  /** Runs after the answer has been handed to the socket. */
  readonly afterAnswer: (action: () => void) => void
}
export type Client = {
  readonly address: string
  readonly endpoint: Endpoint
  /** Sends a notification; undefined over HTTP. */
  readonly notify: ((text: string) => void) | undefined
  /** The client has gone away: its answer is thrown away. */
  readonly isGone: boolean
  /** Aborted when it goes away: for those that wait. To be made, unlike `isGone`. */
  readonly signal: AbortSignal
}

export type Param<T = unknown> = {
  readonly name: string
  readonly codec: Codec<T>
  readonly required: boolean
  /** Value of a parameter left out. */
  readonly fallback: T | undefined
}
/** A result's JSON Schema and how its JSON text is made (ASCII only). */
export type Result<T> = {
  readonly name: string
  readonly schema: JsonSchema
  text(value: T): string // Method syntax, so that a Result<bigint> is a Result<unknown>.
}

/** `params` as they came over the wire. @throws {RpcError} {ViewError} {SchemaError} where there is nothing to say */
type LateData = (view: ChainView, params: readonly unknown[], limits: Limits) => object | undefined

export type Method = {
  readonly name: string
  readonly summary: string
  readonly runs: Runs
  readonly endpoints: readonly Endpoint[]
  /** What of the view the answer depends on, when it depends on the view alone and may be cached; undefined: it may not. */
  readonly basis: BasisOf | undefined
  /** What a caller is told beside the times when its call ran out of time and no worker said more. */
  readonly lateData: LateData | undefined
  /** Changes something, so that it never runs twice for one request. */
  readonly hasEffect: boolean
  /** Waits for events: holds no lease, and no other item of its batch waits for it. */
  readonly isWaiting: boolean
  /** What one call costs in the limiter: points of the requests per second. */
  readonly cost: number
  /** Endpoints for which the service lists it (`--methods standard`). */
  readonly listed: readonly Endpoint[]
  readonly params: readonly Param[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
  /** Decodes the positional parameters. @throws {RpcError} */
  readonly decode: (params: readonly unknown[]) => readonly unknown[]
  /** Decodes the positional parameters, runs the handler, gives the result as JSON text; '' when it is written. @throws {RpcError} {ViewError} */
  readonly invoke: (context: MethodContext, params: readonly unknown[]) => string | Promise<string>
}
export type Methods = ReadonlyMap<string, Method>

export const param = <T>(name: string, codec: Codec<T>): Param<T> => ({
  name,
  codec,
  required: true,
  fallback: undefined,
})
/** A parameter that may be left out or null. */
export function optional<T>(name: string, codec: Codec<T>): Param<T | undefined>
export function optional<T>(name: string, codec: Codec<T>, fallback: NoInfer<T>): Param<T>
export function optional<T>(name: string, codec: Codec<T>, fallback?: T): Param<T | undefined> {
  return { name, codec: codec as Codec<T | undefined>, required: false, fallback }
}

type Params = readonly Param[]
type Values<P extends Params> = { [K in keyof P]: P[K] extends Param<infer T> ? T : never }
type Definition<P extends Params, R, C> = {
  readonly name: string
  readonly summary: string
  readonly params: P
  readonly result: Result<R>
  readonly endpoints?: readonly Endpoint[]
  readonly listed?: readonly Endpoint[]
  readonly basis?: BasisOf
  readonly lateData?: LateData
  readonly hasEffect?: boolean
  readonly isWaiting?: boolean
  readonly cost?: number
  readonly handler: (context: C, ...values: Values<P>) => R | Promise<R>
}

const BOTH: readonly Endpoint[] = ['standard', 'flashblocks']

/** A method that runs on the front thread. */
export function frontMethod<const P extends Params, R>(
  definition: Definition<P, R, FrontContext>,
): Method {
  // Only dispatch calls it, and dispatch gives every front method a FrontContext.
  return build({ ...definition, runs: 'front' } as Definition<P, R, MethodContext> & { runs: Runs })
}

/** A method that runs in a worker of the pool. */
export function poolMethod<const P extends Params, R>(
  definition: Definition<P, R, PoolContext> & { readonly runs: Exclude<Runs, 'front'> },
): Method {
  // Only a worker calls it, with a PoolContext.
  return build(definition as Definition<P, R, MethodContext> & { runs: Runs })
}

function build<P extends Params, R>(
  definition: Definition<P, R, MethodContext> & { readonly runs: Runs },
): Method {
  const { name, summary, runs, params, result, handler } = definition
  const decode = (wire: readonly unknown[]): readonly unknown[] => decodeParams(params, wire)
  return {
    name,
    summary,
    runs,
    params,
    result: { name: result.name, schema: result.schema },
    endpoints: definition.endpoints ?? BOTH,
    listed: definition.listed ?? [],
    basis: definition.basis,
    lateData: definition.lateData,
    hasEffect: definition.hasEffect ?? false,
    isWaiting: definition.isWaiting ?? false,
    cost: definition.cost ?? 1,
    decode,
    invoke(context, wire) {
      const value = handler(context, ...(decode(wire) as Values<P>))
      return value instanceof Promise
        ? value.then((settled) => result.text(settled))
        : result.text(value)
    },
  }
}

function decodeParams(params: Params, wire: readonly unknown[]): readonly unknown[] {
  if (wire.length > params.length) throw tooManyArguments(params.length)
  return params.map(({ codec, required, fallback }, index) => {
    const value = wire[index]
    if (value === undefined && required) throw missingValue(index)
    if ((value === undefined || value === null) && !required) return fallback
    try {
      return codec.decode(value)
    } catch (error) {
      throw error instanceof SchemaError ? invalidArgument(index, error.describe()) : error
    }
  })
}
