/** An endpoint of a node as a provider (EIP-1193). */
import { EventEmitter } from 'node:events'
import type { EndpointName, Started } from './transport.ts'
import type { Provider, ProviderMessage } from './types.ts'

/** An error response of the node. */
export class ProviderError extends Error {
  override name = 'ProviderError'
  /** JSON-RPC error code. */
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
type NodeNotification = { readonly params?: ProviderMessage['data'] }

export type Endpoint = {
  readonly provider: Provider
  readonly onMessage: (text: string) => void
}

export function openEndpoint(name: EndpointName, request: Started['request']): Endpoint {
  const events = new EventEmitter()
  let id = 0
  const provider: Provider = {
    async request<Result>(call: { readonly method: string; readonly params?: unknown }) {
      const { method, params = [] } = call
      const body = JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })
      const { result, error } = JSON.parse(await request(name, body)) as Reply
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
    onMessage(text) {
      const { params } = JSON.parse(text) as NodeNotification
      if (params !== undefined) events.emit('message', { type: 'eth_subscription', data: params })
    },
  }
}
