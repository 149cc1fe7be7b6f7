/**
 * Methods that run on the main thread: their descriptions for front threads, and how calls are
 * passed on.
 */

import type { Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../../rpc/core/client.ts'
import { errorOf, overloaded, type RpcErrorObject } from '../../rpc/core/errors.ts'
import type { JsonSchema } from '../../rpc/json/schema.ts'
import type { FrontContext, Method } from '../../rpc/method/method.ts'

/** A method's description as plain data, without its implementation. */
export type CarriedMethod = Pick<
  Method,
  'name' | 'summary' | 'endpoints' | 'listed' | 'hasEffect' | 'isWaiting' | 'weight'
> & {
  readonly params: readonly {
    readonly name: string
    readonly required: boolean
    readonly schema: JsonSchema
  }[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
}

export const carried = (method: Method): CarriedMethod => {
  const { name, summary, endpoints, listed, hasEffect, isWaiting, weight, params, result } = method
  return {
    name,
    summary,
    endpoints,
    listed,
    hasEffect,
    isWaiting,
    weight,
    result,
    params: params.map(({ name, required, codec }) => ({ name, required, schema: codec.schema })),
  }
}

export type Called = { readonly result: string } | { readonly error: RpcErrorObject }

/** Calls a method on the main thread. @returns undefined if it does not respond in time */
export type ForwardCall = (call: {
  readonly method: string
  /** Parameters as JSON. */
  readonly text: string
  readonly endpoint: Endpoint
  readonly client: Client
}) => Promise<Called | undefined>

const RETRY_MS = 1_000

/** Makes a front thread's method that forwards calls. The main thread decodes their parameters. */
export function passedOn(method: CarriedMethod, pass: ForwardCall): Method {
  const { name } = method
  return {
    ...method,
    params: method.params.map(({ schema, ...param }) => ({
      ...param,
      fallback: undefined,
      codec: { decode: (wire: unknown) => wire, encode: (value: unknown) => value, schema },
    })),
    runs: 'front',
    about: undefined,
    basis: undefined,
    follows: undefined,
    lateData: undefined,
    ofLong: undefined,
    replays: undefined,
    isPure: false,
    cost: () => 1,
    decode: (wire) => wire,
    async invoke(context, wire) {
      // Dispatch gives every method of the front a FrontContext.
      const { client } = context as FrontContext
      const { endpoint } = client
      const called = await pass({ method: name, text: JSON.stringify(wire), endpoint, client })
      if (called === undefined) throw overloaded('the main thread does not answer', RETRY_MS)
      if ('error' in called) throw errorOf(called.error)
      return called.result
    },
  }
}
