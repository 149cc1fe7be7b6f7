/** What every POST to another node takes: where it goes, and what comes back within its bound. */
import { Buffer } from 'node:buffer'

/** fetch takes no URL with a user and a password in it: they go into a header. @param url valid */
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

/** @param tooLong made of the bytes that have come, and thrown, where they are more than `most` @throws whatever reading throws */
export async function textWithin(
  { body }: Response,
  most: number,
  tooLong: (bytes: number) => Error,
): Promise<string> {
  if (body === null) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    // Leaving the loop cancels the rest.
    if (bytes > most) throw tooLong(bytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
