/** This proxy changes a node's responses by method. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// biome-ignore lint/suspicious/noExplicitAny: what a test spoils has whatever shape the method gives it
export type Spoil = (result: any, params: readonly unknown[]) => unknown
type Call = { readonly id: unknown; readonly method: string; readonly params?: readonly unknown[] }
type JsonResponse = { readonly id: unknown; readonly result?: unknown }

export type SpoiltProxy = { readonly url: string; stop(): void }

/** The spoiled response is an error instead of a result. */
export const REFUSED = Symbol('refused')

/**
 * Starts the proxy.
 * @param spoils changes by method; error responses are not changed
 */
export async function startSpoiltProxy(
  target: string,
  spoils: Readonly<Record<string, Spoil>>,
): Promise<SpoiltProxy> {
  const spoilt = (response: JsonResponse, call: Call | undefined): unknown => {
    const spoil = call && spoils[call.method]
    if (spoil === undefined || !('result' in response)) return response
    const result = spoil(response.result, call!.params ?? [])
    if (result !== REFUSED) return { ...response, result }
    return { jsonrpc: '2.0', id: response.id, error: { code: -32_000, message: 'planted' } }
  }
  const server = createServer((incoming, response) => {
    const serve = async () => {
      let body = ''
      for await (const chunk of incoming) body += chunk
      const forwarded = await fetch(target, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      })
      const [request, given] = [JSON.parse(body), await forwarded.json()] as [
        Call | Call[],
        JsonResponse | JsonResponse[],
      ]
      const calls = new Map([request].flat().map((call) => [call.id, call]))
      const responses = [given].flat().map((one) => spoilt(one, calls.get(one.id)))
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(Array.isArray(given) ? responses : responses[0]))
    }
    serve().catch((error: Error) => response.destroy(error))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
}
