/** What a JSON-RPC method is: one exported constant, made by `frontMethod` or `poolMethod`. */
import type { Block, ChainView, Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { BlockEnv, Engine } from '../../engine/evm/engine.ts'
import type { KeptReplays } from '../../engine/execution/call/kept-replays.ts'
import type { KeptSession } from '../../engine/execution/call/kept-session.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Naming } from '../../engine/state/collecting.ts'
import type { StateReader } from '../../engine/state/reader.ts'
import type { TraceOutput } from '../../engine/tracers/types.ts'
import {
  type Codec,
  formOf,
  type JsonSchema,
  type Param,
  type Result,
  SchemaError,
} from '../json/schema.ts'
import type { About } from '../seam/about.ts'
import type { Client } from '../seam/client.ts'
import {
  invalidArgument,
  invalidParameter,
  invalidParams,
  missingValue,
  type RpcError,
  tooManyArguments,
} from '../seam/errors.ts'
import type { PoolReply } from '../seam/executor.ts'
import type { Runs } from '../seam/lane.ts'
import type { Limits } from '../seam/limits.ts'
import { type BasisOf, type Follows, onBlock } from './basis.ts'
import type { FrontServices } from './services.ts'

/** All of them: each codec and handler reads its own, and who runs methods hands them on. */
export type MethodLimits = Limits

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
export type PoolContext = MethodContext & {
  readonly output: TraceOutput
  /** Blocks that this thread has replayed. */
  readonly replays: KeptReplays
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** The state after a block of the view, the same for all calls of a task. */
  readonly stateOf: (block: Block) => CallState
  /** State is fetched as it is read: there is no trie. */
  readonly isLazy: boolean
  /** State was missing: what comes out of the call will not be believed (evm/engine.ts: Limits). */
  readonly isLost?: (() => boolean) | undefined
  /** Hears what the call will read for certain: of use where it has to be fetched. undefined: all state is there. */
  readonly expects?: ((of: () => Expected) => void) | undefined
}
/** Messages that are going to run on a state. */
export type Expected = {
  readonly reader: StateReader
  readonly messages: Iterable<Naming>
}
/** What calls on one block share. */
export type CallState = {
  readonly env: BlockEnv
  readonly reader: StateReader
  readonly kept: KeptSession
  /** Hears what a call has read of the block (execution/call/call.ts); undefined: nobody asks. */
  readonly onFields?: (fields: number) => void
}
/** Front handlers also get the services that live there. */
export type FrontContext = MethodContext & {
  readonly services: FrontServices
  /** Who asks: for per-client limits, subscriptions and filters. */
  readonly client: Client
  /** Reads the newest view for the length of one synchronous call, for methods that wait: the request's own may be older than the event. */
  readonly readNewest: <T>(read: (view: ChainView) => T) => T
  /** Runs a pool method for this request, at the newest record. */
  readonly callPool: (method: Method, params: readonly unknown[]) => Promise<PoolReply>
  /**
   * Runs `read` again, until nothing that it reads is missing any more: for methods that may not run twice as a whole, on a node that fetches
   * state as it is read. Rejects with what `read` throws, and with an RpcError when the state cannot be had.
   */
  readonly withState: <T>(read: () => T | Promise<T>, purpose: 'send' | 'caller') => Promise<T>
  /** Awaited before what takes long on the front and stands behind an await, as a signature: others have their turn of the loop first. */
  readonly turn: () => Promise<void>
  /** Runs after the answer has been handed to the socket. */
  readonly afterAnswer: (action: () => void) => void
}

/** `params` as they came over the wire. @throws {RpcError} {ViewError} {SchemaError} where there is nothing to say */
type LateData = (view: ChainView, params: readonly unknown[], limits: Limits) => object | undefined

/** The hash of a block, of decoded parameters. @throws {ViewError} */
export type Replays = (view: ChainView, values: readonly unknown[]) => Bytes | undefined

export type Cost = (params: readonly unknown[], limits: Limits) => number

export type Method = {
  readonly name: string
  readonly summary: string
  readonly runs: Runs
  /**
   * Where another node has the chain before this one, it is asked for what is older (legacy/route.ts), a read of latest may wait for a
   * block that its client was shown (events/shown.ts), and a receipt for its flashblock (events/hold.ts); undefined: nothing of that.
   */
  readonly about: About | undefined
  /** A front method that looks at nothing but its parameters: long ones go to the pool. */
  readonly isPure: boolean
  /** How a front method with long parameters is answered without decoding them on the front; undefined: it decodes them. */
  readonly ofLong: OfLong | undefined
  readonly endpoints: readonly Endpoint[]
  /** What of the view the answer depends on, when it depends on the view alone and may be cached; undefined: it may not. */
  readonly basis: BasisOf | undefined
  /** The head that the answer follows: it outlives what does not change what it has read. undefined: it is an answer of its basis alone. */
  readonly follows: Follows | undefined
  /** What a caller is told beside the times when its call ran out of time and no worker said more. */
  readonly lateData: LateData | undefined
  /** The block whose transactions a worker replays for it, which it may have done for another call; undefined: it replays none. */
  readonly replays: Replays | undefined
  /** Changes something, so that it never runs twice for one request. */
  readonly hasEffect: boolean
  /** Waits for events: holds no lease, and no other item of its batch waits for it. */
  readonly isWaiting: boolean
  /** What a call with these parameters, which nobody has looked at, costs in the limiter: points of the requests per second. */
  readonly cost: Cost
  /** The least that a call costs where the limit is by cost (--limit-by): in points of about 50 µs of a processor, as measured (ADR 45). */
  readonly weight: number
  /** Endpoints for which the service lists it (`--methods standard`). */
  readonly listed: readonly Endpoint[]
  readonly params: readonly Param[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
  /** Decodes the positional parameters. @throws {RpcError} */
  readonly decode: (params: readonly unknown[], limits: Limits) => readonly unknown[]
  /** Decodes the positional parameters, runs the handler, gives the result as JSON text; '' when it is written. @throws {RpcError} {ViewError} */
  readonly invoke: (context: MethodContext, params: readonly unknown[]) => string | Promise<string>
}
export type Methods = ReadonlyMap<string, Method>
export type OfLong = {
  /** A method of the pool that takes the same parameters, text by text. */
  readonly first: Method
  /** The result as JSON text, from that of `first`. @throws {RpcError} */
  readonly finish: (context: FrontContext, text: string) => string
}

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
  readonly about?: About
  /** 'about': the block that it is about. */
  readonly basis?: BasisOf | 'about'
  readonly follows?: Follows
  readonly lateData?: LateData
  readonly replays?: (view: ChainView, ...values: Values<P>) => Bytes | undefined
  readonly hasEffect?: boolean
  readonly isWaiting?: boolean
  readonly isPure?: boolean
  readonly ofLong?: OfLong
  readonly cost?: number | Cost
  /** Left out: what a plain read costs, or a call that a worker runs. */
  readonly weight?: number
  readonly handler: (context: C, ...values: Values<P>) => R | Promise<R>
}

const READ_WEIGHT = 1
const WORKER_WEIGHT = 2

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
  const { name, summary, runs, params, result, handler, replays, cost = 1 } = definition
  const words = isOwnName(name) ? OWN_WORDS : GO_WORDS
  const decode: Method['decode'] = (wire, limits) => decodeParams(params, wire, { limits, words })
  return {
    name,
    summary,
    runs,
    isPure: definition.isPure ?? false,
    ofLong: definition.ofLong,
    params,
    result: { name: result.name, schema: result.schema },
    endpoints: definition.endpoints ?? BOTH,
    listed: definition.listed ?? [],
    about: definition.about,
    basis: basisOf(definition),
    follows: definition.follows,
    lateData: definition.lateData,
    replays: replays && ((view, values) => replays(view, ...(values as Values<P>))),
    hasEffect: definition.hasEffect ?? false,
    isWaiting: definition.isWaiting ?? false,
    cost: typeof cost === 'function' ? cost : () => cost,
    weight: definition.weight ?? (runs === 'front' ? READ_WEIGHT : WORKER_WEIGHT),
    decode,
    invoke(context, wire) {
      const value = handler(context, ...(decode(wire, context.limits) as Values<P>))
      return value instanceof Promise
        ? value.then((settled) => result.text(settled))
        : result.text(value)
    },
  }
}

function basisOf({
  basis,
  about,
}: {
  readonly basis?: BasisOf | 'about'
  readonly about?: About
}): BasisOf | undefined {
  if (basis !== 'about') return basis
  if (about === undefined) throw new Error('a method about nothing depends on no block')
  return onBlock(about)
}

/** Namespaces that go-ethereum does not have, so that nobody matches its words there. */
const OWN_NAMESPACES = /^(dev|evm|anvil|hardhat|flashblocks|base|rpc)[_.]/
const isOwnName = (name: string): boolean => OWN_NAMESPACES.test(name)

/** How a parameter is refused that has another form than its codec takes, or is not there. */
type RefusalWords = {
  readonly wrong: (index: number, error: SchemaError) => RpcError
  readonly missing: (index: number, codec: Codec<unknown>) => RpcError
}
const GO_WORDS: RefusalWords = {
  wrong: (index, error) => invalidArgument(index, error.describe()),
  missing: (index) => missingValue(index),
}
const OWN_WORDS: RefusalWords = {
  wrong: (index, error) => invalidParams(error.describeOwn(`params[${index}]`)),
  missing: (index, { schema }) =>
    invalidParameter(index, `expected ${formOf(schema)}, got nothing`),
}

function decodeParams(
  params: Params,
  wire: readonly unknown[],
  { limits, words }: { readonly limits: Limits; readonly words: RefusalWords },
): readonly unknown[] {
  if (wire.length > params.length) throw tooManyArguments(params.length)
  return params.map(({ codec, required, fallback }, index) => {
    const value = wire[index]
    if (value === undefined && required) throw words.missing(index, codec)
    const isLeftOut = value === undefined || (value === null && codec.takesNull !== true)
    if (isLeftOut && !required) return fallback
    try {
      return codec.decode(value, limits)
    } catch (error) {
      throw error instanceof SchemaError ? words.wrong(index, error.refusing(value, codec)) : error
    }
  })
}
