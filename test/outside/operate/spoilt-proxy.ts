/** A proxy before a node that changes answers, method by method. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// biome-ignore lint/suspicious/noExplicitAny: what a test spoils has whatever shape the method gives it
export type Spoil = (result: any, params: readonly unknown[]) => unknown
type Call = { readonly id: unknown; readonly method: string; readonly params?: readonly unknown[] }
type Answer = { readonly id: unknown; readonly result?: unknown }

export type SpoiltProxy = { readonly url: string; stop(): void }

/** In place of a result: the answer is an error. */
export const REFUSED = Symbol('refused')

/** @param spoils by method; of an answer that is an error nothing is changed */
export async function startSpoiltProxy(
  target: string,
  spoils: Readonly<Record<string, Spoil>>,
): Promise<SpoiltProxy> {
  const spoilt = (answer: Answer, call: Call | undefined): unknown => {
    const spoil = call && spoils[call.method]
    if (spoil === undefined || !('result' in answer)) return answer
    const result = spoil(answer.result, call!.params ?? [])
    if (result !== REFUSED) return { ...answer, result }
    return { jsonrpc: '2.0', id: answer.id, error: { code: -32_000, message: 'planted' } }
  }
  const server = createServer((incoming, response) => {
    const serve = async () => {
      let body = ''
      for await (const chunk of incoming) body += chunk
      const forwarded = await fetch(target, {
        ...{ method: 'POST', body },
        headers: { 'content-type': 'application/json' },
      })
      const [asked, given] = [JSON.parse(body), await forwarded.json()] as [
        Call | Call[],
        Answer | Answer[],
      ]
      const calls = new Map([asked].flat().map((call) => [call.id, call]))
      const answers = [given].flat().map((one) => spoilt(one, calls.get(one.id)))
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(Array.isArray(given) ? answers : answers[0]))
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
