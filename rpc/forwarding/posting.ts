/** Helpers for POST requests to other nodes: the address, and a bounded response. */
import { Buffer } from 'node:buffer'

/**
 * Moves user and password of a URL to a header, because fetch accepts neither in a URL.
 * @param url must be valid
 */
export function addressed(url: URL): {
  readonly target: URL
  readonly headers: Readonly<Record<string, string>>
} {
  const target = new URL(url)
  const { username, password } = target
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  if (username === '' && password === '') return { target, headers }
  target.username = ''
  target.password = ''
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return {
    target,
    headers: {
      ...headers,
      authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
    },
  }
}

/**
 * Reads a response of at most `max` bytes.
 * @param tooLong makes the error for a longer response, from the bytes received
 * @throws errors of the read
 */
export async function textWithin(
  { body }: Response,
  max: number,
  tooLong: (bytes: number) => Error,
): Promise<string> {
  if (body === null) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    // Leaving the loop cancels the rest of the body.
    if (bytes > max) throw tooLong(bytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
