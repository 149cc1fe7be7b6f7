/**
 * This module sends one HTTP request like a client with its own address, connections and headers.
 */
import { type Agent, type IncomingHttpHeaders, request } from 'node:http'

export type HttpResponse = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}
export type From = {
  /** This agent reuses connections; false opens a new connection for this request. */
  readonly agent?: Agent | false
  /** The address is one of 127.0.0.0/8. */
  readonly localAddress?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The connection is closed after this time. */
  readonly timeoutMs?: number
}

/**
 * Sends a body of JSON text.
 * @throws {Error} the error with which the connection ends
 */
export function post(url: string, body: string, from: From = {}): Promise<HttpResponse> {
  const { headers, timeoutMs, ...options } = from
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      {
        ...options,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          ...headers,
        },
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () =>
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        )
      },
    )
    sent.on('error', reject)
    if (timeoutMs !== undefined) {
      const late = () => sent.destroy(new Error(`no answer within ${timeoutMs} ms`))
      const timer = setTimeout(late, timeoutMs)
      sent.on('close', () => clearTimeout(timer))
    }
    sent.end(body)
  })
}

/** Makes the text of a JSON-RPC request. */
export const bodyOf = (method: string, params: readonly unknown[] = [], id = 1): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })
