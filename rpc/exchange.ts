/** The seam between the sockets (server, WebSocket) and JSON-RPC (dispatch): text in, text out. */
import type { Client } from './method.ts'

export type Answer = {
  /** undefined: only notifications were sent, there is nothing to say. */
  readonly text: string | undefined
  /** HTTP status; of no meaning on a WebSocket. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Answers one request body, single or batch. Parses, charges the limiter for the client's address, runs, and always answers: it never
 * throws or rejects. At once where nothing has to be waited for. Once `client.isGone` its answer is thrown away.
 */
export type Answerer = (body: string, client: Client) => Answer | Promise<Answer>
