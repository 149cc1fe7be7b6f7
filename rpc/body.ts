/** The body of an HTTP request: collected and decoded once, bounded while it comes in. */
import type { IncomingMessage, ServerResponse } from 'node:http'

export type BodyReader = {
  /** Bytes. */
  readonly limit: number
  readonly done: (error: Error | null, body?: string) => void
}

/** Bytes that are no UTF-8 become U+FFFD. `done` gets an error with the `statusCode` of its refusal. */
export function readBody(payload: IncomingMessage, { limit, done }: BodyReader): void {
  const encoding = payload.headers['content-encoding']
  const declared = Number(payload.headers['content-length'] ?? 0)
  if (encoding !== undefined && encoding !== 'identity') {
    done(refusal(415, UNSUPPORTED_ENCODING))
    return
  }
  if (declared > limit) {
    done(tooLarge(declared, limit))
    return
  }
  let chunks: Buffer[] = []
  let size = 0
  payload.on('data', (chunk: Buffer) => {
    const wasWithin = size <= limit
    size += chunk.length
    if (size <= limit) chunks.push(chunk)
    else if (wasWithin) {
      chunks = []
      done(tooLarge(size, limit))
    }
  })
  payload.once('end', () => {
    if (size > limit) return
    done(null, (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)).toString('utf8'))
  })
  payload.once('error', (error) => done(error))
}

/** How long, and for how many bytes, a client may go on sending what is refused already. */
const LINGER_MS = 2_000
const LINGER_BYTES = 32_000_000

/**
 * Ends a response whose request is still being sent: whoever sends is not reading, and a connection closed under it would take the answer
 * along. So the answer goes out whole, the rest of the request is read and thrown away, and only then the connection is closed.
 */
export function endBeforeRequest(request: IncomingMessage, response: ServerResponse): void {
  let size = 0
  const end = () => {
    clearTimeout(timer)
    response.end()
  }
  const timer = setTimeout(end, LINGER_MS)
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > LINGER_BYTES) end()
  })
  request.once('end', end)
  request.once('close', end)
  request.resume()
}

export const UNSUPPORTED_ENCODING = 'content encoding is not supported'

const refusal = (statusCode: number, message: string): Error =>
  Object.assign(new Error(message), { statusCode })
const tooLarge = (size: number, limit: number): Error =>
  refusal(413, `content length too large (${size}>${limit})`)
