/** Type of a JSON-RPC method: one exported constant, made by `frontMethod` or `poolMethod`. */
import type { Block, ChainView, Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { BlockEnv, Engine } from '../../engine/evm/engine.ts'
import type { CachedSession } from '../../engine/execution/call/cached-session.ts'
import type { ReplayCache } from '../../engine/execution/call/replay-cache.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Naming } from '../../engine/state/collecting.ts'
import type { StateReader } from '../../engine/state/reader.ts'
import type { TraceOutput } from '../../engine/tracers/types.ts'
import type { About } from '../core/about.ts'
import type { Client } from '../core/client.ts'
import {
  invalidArgument,
  invalidParameter,
  invalidParams,
  missingValue,
  type RpcError,
  tooManyArguments,
} from '../core/errors.ts'
import type { PoolReply } from '../core/executor.ts'
import type { Limits } from '../core/limits.ts'
import type { Runs } from '../core/queue-class.ts'
import {
  type Codec,
  formOf,
  type JsonSchema,
  type Param,
  type Result,
  SchemaError,
} from '../json/schema.ts'
import { type BasisOf, type Follows, onBlock } from './basis.ts'
import type { FrontServices } from './services.ts'

/** All limits; each codec and handler reads its own. */
export type MethodLimits = Limits

/** Context of every handler, on the front thread and in a worker. */
export type MethodContext = {
  /** View leased at first use, and shared by all calls of a batch. */
  readonly view: ChainView
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: Limits
  /** True once the request's deadline has passed or its client is gone; long work polls it. */
  readonly isExpired: () => boolean
}
/**
 * Context of handlers in a worker. They may write a large result in pieces instead of returning it.
 */
export type PoolContext = MethodContext & {
  readonly output: TraceOutput
  /** Blocks that this thread has replayed. */
  readonly replays: ReplayCache
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** State after a block of the view, shared by all calls of a task. */
  readonly stateOf: (block: Block) => CallState
  /** State is fetched on first read, so there is no trie. */
  readonly isLazy: boolean
  /**
   * True once state was missing, so that the call's result will be discarded (evm/engine.ts:
   * Limits).
   */
  readonly isLost?: (() => boolean) | undefined
  /** Receives the messages whose reads can be prefetched; undefined when all state is local. */
  readonly expects?: ((of: () => Expected) => void) | undefined
}
/** Messages that will run on a state. */
export type Expected = {
  readonly reader: StateReader
  readonly messages: Iterable<Naming>
}
/** Parts that calls on the same block share. */
export type CallState = {
  readonly env: BlockEnv
  readonly reader: StateReader
  readonly cached: CachedSession
  /**
   * Receives the block fields that a call has read (execution/call/call.ts); undefined when nobody
   * needs them.
   */
  readonly onFields?: (fields: number) => void
}
/** Context of front handlers, which also get the services of the front thread. */
export type FrontContext = MethodContext & {
  readonly services: FrontServices
  /** Client of the request, for per-client limits, subscriptions and filters. */
  readonly client: Client
  /**
   * Reads the newest view during one synchronous call. Methods that wait need it, because the
   * request's view may be older than the event.
   */
  readonly readNewest: <T>(read: (view: ChainView) => T) => T
  /** Runs a pool method for this request, at the newest snapshot. */
  readonly callPool: (method: Method, params: readonly unknown[]) => Promise<PoolReply>
  /**
   * Repeats `read` until no state that it reads is missing. It serves methods that may not run
   * twice, on a node with lazy state. It rejects with the error of `read`, or with an RpcError when
   * the state is unavailable.
   */
  readonly withState: <T>(read: () => T | Promise<T>, purpose: 'send' | 'caller') => Promise<T>
  /** Yields to the event loop before long work on the front, such as a signature. */
  readonly turn: () => Promise<void>
  /** Runs an action after the response has been written to the socket. */
  readonly afterResponse: (action: () => void) => void
}

/**
 * Builds error data from the raw parameters; undefined when there is none.
 * @throws {RpcError} {ViewError} {SchemaError}
 */
type LateData = (view: ChainView, params: readonly unknown[], limits: Limits) => object | undefined

/**
 * Returns a block's hash for decoded parameters.
 * @throws {ViewError}
 */
export type Replays = (view: ChainView, values: readonly unknown[]) => Bytes | undefined

export type Cost = (params: readonly unknown[], limits: Limits) => number

export type Method = {
  readonly name: string
  readonly summary: string
  readonly runs: Runs
  /**
   * Block that the response is about. Another node may answer for older blocks
   * (forwarding/route.ts). A read of latest may wait for a block that its client has seen
   * (events/seen-receipts.ts). A receipt may wait for its flashblock (events/receipt-hold.ts).
   * Undefined disables all of these.
   */
  readonly about: About | undefined
  /** A front method that reads only its parameters; long ones run in the pool. */
  readonly isPure: boolean
  /**
   * Answers a front method with long parameters without decoding them on the front; undefined
   * decodes them there.
   */
  readonly ofLong: OfLong | undefined
  readonly endpoints: readonly Endpoint[]
  /**
   * Basis of a cacheable response, which depends on the view alone; undefined disables the cache.
   */
  readonly basis: BasisOf | undefined
  /**
   * Head that the response follows, so that it outlives changes to other state. Undefined makes it
   * valid for its basis alone.
   */
  readonly follows: Follows | undefined
  /** Data of a timeout error beside the times, when no worker provided any. */
  readonly lateData: LateData | undefined
  /**
   * Block whose transactions a worker replays for the call, and may have replayed before; undefined
   * for none.
   */
  readonly replays: Replays | undefined
  /** The method has an effect, so it never runs twice for one request. */
  readonly hasEffect: boolean
  /**
   * The method waits for events. It has no lease, and other items of its batch do not wait for it.
   */
  readonly isWaiting: boolean
  /**
   * Limiter cost of a call with these unchecked parameters, in points of the requests per second.
   */
  readonly cost: Cost
  /**
   * Minimum cost of a call under --limit-by cost, in points of about 50 µs of processor time (ADR
   * 45).
   */
  readonly weight: number
  /** Endpoints for which the service lists the method (`--methods standard`). */
  readonly listed: readonly Endpoint[]
  readonly params: readonly Param[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
  /**
   * Decodes the positional parameters.
   * @throws {RpcError}
   */
  readonly decode: (params: readonly unknown[], limits: Limits) => readonly unknown[]
  /**
   * Decodes the positional parameters and runs the handler.
   * @returns the result as JSON text, or '' when it is already written
   * @throws {RpcError} {ViewError}
   */
  readonly invoke: (context: MethodContext, params: readonly unknown[]) => string | Promise<string>
}
export type Methods = ReadonlyMap<string, Method>
export type OfLong = {
  /** A pool method that takes the same parameter texts. */
  readonly first: Method
  /**
   * Builds the result's JSON text from the result of `first`.
   * @throws {RpcError}
   */
  readonly finish: (context: FrontContext, text: string) => string
}

export const param = <T>(name: string, codec: Codec<T>): Param<T> => ({
  name,
  codec,
  required: true,
  fallback: undefined,
})
/** Declares a parameter that may be left out or null. */
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
  /** 'about' derives the basis from the block of `about`. */
  readonly basis?: BasisOf | 'about'
  readonly follows?: Follows
  readonly lateData?: LateData
  readonly replays?: (view: ChainView, ...values: Values<P>) => Bytes | undefined
  readonly hasEffect?: boolean
  readonly isWaiting?: boolean
  readonly isPure?: boolean
  readonly ofLong?: OfLong
  readonly cost?: number | Cost
  /** The default is the cost of a plain read, or of a call that a worker runs. */
  readonly weight?: number
  readonly handler: (context: C, ...values: Values<P>) => R | Promise<R>
}

const READ_WEIGHT = 1
const WORKER_WEIGHT = 2

const BOTH: readonly Endpoint[] = ['standard', 'flashblocks']

/** Defines a method that runs on the front thread. */
export function frontMethod<const P extends Params, R>(
  definition: Definition<P, R, FrontContext>,
): Method {
  // Only dispatch invokes it, with a FrontContext for every front method.
  return build({ ...definition, runs: 'front' } as Definition<P, R, MethodContext> & { runs: Runs })
}

/** Defines a method that runs in a worker of the pool. */
export function poolMethod<const P extends Params, R>(
  definition: Definition<P, R, PoolContext> & { readonly runs: Exclude<Runs, 'front'> },
): Method {
  // Only a worker invokes it, with a PoolContext.
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
  if (about === undefined) throw new Error('a method with the basis "about" must define "about"')
  return onBlock(about)
}

/** Namespaces that go-ethereum does not have, so no client matches its error texts there. */
const OWN_NAMESPACES = /^(dev|evm|anvil|hardhat|flashblocks|base|rpc)[_.]/
const isOwnName = (name: string): boolean => OWN_NAMESPACES.test(name)

/** Errors for a parameter that is missing or does not have the form of its codec. */
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
