/** Interface between the sockets (HTTP, WebSocket) and JSON-RPC (dispatch): text in, text out. */

import type { Client } from './client.ts'
import type { Prepaid } from './prepaid.ts'

export type RpcResponse = {
  /** undefined: the request had only notifications, so the response has no text. */
  readonly text: string | undefined
  /**
   * Parts of a large response, in order. `text` joins them on each read, which takes about 10 ms.
   */
  readonly parts?: readonly Part[] | undefined
  /** HTTP status; ignored on a WebSocket. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /**
   * Milliseconds for which the connection is not read, because the client had too many refusals in
   * a second.
   */
  readonly throttleMs?: number | undefined
}

/** ASCII text, or encoded bytes. */
export type Part = string | Uint8Array

/** Number of characters from which a response is large. */
export const LARGE = 262_144

const textOfPart = (part: Part): string =>
  typeof part === 'string' ? part : Buffer.from(part).toString()

/** A response in parts. `text` joins them for transports that cannot send parts. */
export class LargeResponse implements RpcResponse {
  readonly parts: readonly Part[]
  readonly status = 200
  readonly headers: Readonly<Record<string, string>>

  constructor(parts: readonly Part[], headers: Readonly<Record<string, string>>) {
    this.parts = parts
    this.headers = headers
  }

  get text(): string {
    return this.parts.map(textOfPart).join('')
  }
}

/**
 * Answers one request body, single or batch: parses, charges the limiter for the client's address,
 * and runs. The responder never throws or rejects. The result is synchronous if no part has to
 * wait. The response is discarded once `client.isGone` is true.
 * @param prepaid points charged for this body during its receipt
 */
export type Responder = (
  body: string,
  client: Client,
  prepaid?: Prepaid,
) => RpcResponse | Promise<RpcResponse>
