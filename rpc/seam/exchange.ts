/** The seam between the sockets (server, WebSocket) and JSON-RPC (dispatch): text in, text out. */

import type { Client } from './client.ts'
import type { Paid } from './paid.ts'

export type Answer = {
  /** undefined: only notifications were sent, there is nothing to say. */
  readonly text: string | undefined
  /** Of a large answer, in order; then `text` is all of them, and takes some ten milliseconds to make. */
  readonly parts?: readonly Part[] | undefined
  /** HTTP status; of no meaning on a WebSocket. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** More refusals than a client may have in a second: its connection is not read for so long. */
  readonly holdMs?: number | undefined
}

/** Plain ASCII, or the bytes of text. */
export type Part = string | Uint8Array

/** Characters from which an answer is large. */
export const LARGE = 262_144

const textOfPart = (part: Part): string =>
  typeof part === 'string' ? part : Buffer.from(part).toString()

/** Joined only for those who cannot send it in parts. */
export class LargeAnswer implements Answer {
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
 * Answers one request body, single or batch. Parses, charges the limiter for the client's address, runs, and always answers: it never
 * throws or rejects. At once where nothing has to be waited for. Once `client.isGone` its answer is thrown away.
 * @param paid what was charged for this body while it was received
 */
export type Answerer = (body: string, client: Client, paid?: Paid) => Answer | Promise<Answer>
