/** JSON-RPC over HTTP: one POST for each message, read no further than it may be long. */
import { Buffer } from 'node:buffer'
import { UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { Transport } from '../../engine/sources/upstream/transport.ts'

/** @param url valid; a user and a password in it go into a header */
export function openHttp(url: URL, maxBytes: number): Transport {
  const { origin } = url
  const { target, headers } = addressed(url)
  const closed = new AbortController()
  return {
    async exchange(message, _, signal) {
      let response: Response
      try {
        response = await fetch(target, {
          method: 'POST',
          headers,
          body: message,
          signal: AbortSignal.any([closed.signal, signal]),
          redirect: 'error',
        })
      } catch (error) {
        throw new UpstreamError(
          isUnsent(error) ? 'unreachable' : 'broken',
          `cannot reach ${origin}: ${reasonOf(error)}`,
        )
      }
      if (response.status === 429) {
        await response.body?.cancel()
        throw new UpstreamError('limited', `${origin} answered with HTTP 429`, {
          retryAfterMs: retryAfterMs(response.headers.get('retry-after'), Date.now()),
        })
      }
      return answerOf(await textOf(response, { maxBytes, origin }), response, origin)
    },
    pushes: undefined,
    close: () => closed.abort(),
  }
}

/** Seconds, or a date (RFC 9110, 10.2.3). 0: it does not say. */
export function retryAfterMs(text: string | null, nowMs: number): number {
  if (text === null) return 0
  const at = /^\d{1,9}$/.test(text.trim()) ? nowMs + Number(text) * 1_000 : Date.parse(text)
  return Number.isNaN(at) ? 0 : Math.max(0, at - nowMs)
}

/** fetch takes no URL with a password in it. */
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

async function textOf(
  { body }: Response,
  { maxBytes, origin }: { readonly maxBytes: number; readonly origin: string },
): Promise<string> {
  if (body === null) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of body) {
      bytes += chunk.length
      // Leaving the loop cancels the rest.
      if (bytes > maxBytes)
        throw new UpstreamError('large', `the answer of ${origin} is longer than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
  } catch (error) {
    if (error instanceof UpstreamError) throw error
    throw new UpstreamError('broken', `the answer of ${origin} was cut off: ${reasonOf(error)}`)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function answerOf(text: string, { ok, status }: Response, origin: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const what = ok ? 'something that is not JSON' : `HTTP ${status}`
    throw new UpstreamError('broken', `${origin} answered with ${what}`)
  }
}

/** Nothing of the message has left: no connection came about. */
const UNSENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])
function isUnsent(error: unknown): boolean {
  const { cause } = error as {
    readonly cause?: {
      readonly code?: string
      readonly errors?: readonly { readonly code?: string }[]
    }
  }
  const codes = cause?.errors?.map(({ code }) => code) ?? [cause?.code]
  return codes.every((code) => code !== undefined && UNSENT.has(code))
}

/** fetch says "fetch failed" and why in the cause; several addresses that all fail have one cause each. */
export function reasonOf(error: unknown): string {
  const { cause = error } = error as { readonly cause?: unknown }
  const { errors, code, message } = cause as {
    readonly errors?: readonly Error[]
    readonly code?: string
    readonly message?: string
  }
  return errors?.[0]?.message || message || code || String(cause)
}
