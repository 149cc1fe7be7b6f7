/** What a JSON-RPC method is: one exported constant. */
import type { ChainView, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import type { Limits } from './limits.ts'
import type { Codec, JsonSchema } from './schema.ts'
import type { FrontServices } from './services.ts'

/** `front` methods answer from memory or by a point read; `pool` methods run the EVM or scan. Lanes bound each other (hot-path.md). */
export type Runs = 'front' | 'call' | 'trace' | 'logs'

/** What every handler gets, on the front and in a worker alike. */
export type MethodContext = {
  readonly view: ChainView
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: Limits
  /** True once the request's deadline has passed or its client has gone: long work polls it. */
  readonly isExpired: () => boolean
}
/** Front handlers also get the services that live there. */
export type FrontContext = MethodContext & {
  readonly services: FrontServices
  /** Who asks: for per-client limits, subscriptions and filters. */
  readonly client: Client
  /** Takes a newer view, for methods that wait (sendRawTransactionSync): the request's own may be older than the event. */
  readonly freshView: () => ChainView
}
export type Client = {
  readonly address: string
  readonly endpoint: Endpoint
  /** Sends a notification; undefined over HTTP. */
  readonly notify: ((text: string) => void) | undefined
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal
}

export type Param = {
  readonly name: string
  readonly codec: Codec<unknown>
  readonly required: boolean
  /** Wire form taken when left out. */
  readonly fallback: unknown
}

export type Method = {
  readonly name: string
  readonly summary: string
  readonly runs: Runs
  readonly endpoints: readonly Endpoint[]
  /** Whether the answer depends on the view alone, so that it may be cached by ChainView.cacheKey. */
  readonly isCacheable: boolean
  /** What one call costs in the limiter; 1 is a light read. */
  readonly cost: number
  /** On the service's list of standard methods (`--methods standard`). */
  readonly isStandard: boolean
  readonly params: readonly Param[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
  /** Decodes the positional parameters, runs the handler, gives the result as JSON text. @throws {RpcError} */
  readonly invoke: (context: MethodContext, params: readonly unknown[]) => string | Promise<string>
}
export type Methods = ReadonlyMap<string, Method>
