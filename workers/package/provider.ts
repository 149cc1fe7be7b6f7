/** One endpoint of a node as a provider (EIP-1193). */
import { EventEmitter } from 'node:events'
import type { EndpointName, Started } from './transport.ts'
import type { Provider, ProviderMessage } from './types.ts'

/** The node's answer in place of a result. */
export class ProviderError extends Error {
  override name = 'ProviderError'
  /** Of JSON-RPC. */
  readonly code: number
  readonly data: unknown

  constructor({ code, message, data }: Fault) {
    super(message)
    this.code = code
    this.data = data
  }
}
type Fault = { readonly code: number; readonly message: string; readonly data?: unknown }
type Reply = { readonly result?: unknown; readonly error?: Fault }
type Told = { readonly params?: ProviderMessage['data'] }

export type Endpoint = {
  readonly provider: Provider
  /** A notification of the node. */
  readonly hear: (text: string) => void
}

export function openEndpoint(name: EndpointName, ask: Started['ask']): Endpoint {
  const events = new EventEmitter()
  let id = 0
  const provider: Provider = {
    async request<Result>(call: { readonly method: string; readonly params?: unknown }) {
      const { method, params = [] } = call
      const body = JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })
      const { result, error } = JSON.parse(await ask(name, body)) as Reply
      if (error !== undefined) throw new ProviderError(error)
      return result as Result
    },
    on(event, listener) {
      events.on(event, listener)
      return this
    },
    removeListener(event, listener) {
      events.removeListener(event, listener)
      return this
    },
  }
  return {
    provider,
    hear(text) {
      const { params } = JSON.parse(text) as Told
      if (params !== undefined) events.emit('message', { type: 'eth_subscription', data: params })
    },
  }
}
