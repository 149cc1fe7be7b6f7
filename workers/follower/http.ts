/** JSON-RPC over HTTP: one POST for each message; a response is read up to a limit. */
import { isFault, UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { Transport } from '../../engine/sources/upstream/messages.ts'
import { reasonOf, reasonOfResponse } from '../../rpc/forwarding/failures.ts'
import { addressed, textWithin } from '../../rpc/forwarding/posting.ts'

/** @param url a valid URL; its user and password move to a header */
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
        throw new UpstreamError('limited', `${origin} answered with ${reasonOfResponse(429, '')}`, {
          retryAfterMs: retryAfterMs(response.headers.get('retry-after'), Date.now()),
        })
      }
      return responseOf(await textOf(response, { maxBytes, origin }), response, origin)
    },
    pushes: undefined,
    close: () => closed.abort(),
  }
}

/** Parses seconds or a date (RFC 9110, 10.2.3); 0 if there is none. */
export function retryAfterMs(text: string | null, nowMs: number): number {
  if (text === null) return 0
  const at = /^\d{1,9}$/.test(text.trim()) ? nowMs + Number(text) * 1_000 : Date.parse(text)
  return Number.isNaN(at) ? 0 : Math.max(0, at - nowMs)
}

async function textOf(
  response: Response,
  { maxBytes, origin }: { readonly maxBytes: number; readonly origin: string },
): Promise<string> {
  const tooLong = () =>
    new UpstreamError('large', `the answer of ${origin} is longer than ${maxBytes} bytes`)
  try {
    return await textWithin(response, maxBytes, tooLong)
  } catch (error) {
    if (error instanceof UpstreamError) throw error
    throw new UpstreamError('broken', `the answer of ${origin} was cut off: ${reasonOf(error)}`)
  }
}

function responseOf(text: string, { ok, status }: Response, origin: string): unknown {
  const response = parsed(text)
  if (response !== undefined && (ok || isRpcResponse(response))) return response
  throw new UpstreamError('broken', `${origin} answered with ${reasonOfResponse(status, text)}`)
}

/** Returns undefined if the text is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A gateway's own error may be JSON too, such as {"message": "Unauthorized"}. */
const isRpcResponse = (response: unknown): boolean =>
  Array.isArray(response) ||
  (typeof response === 'object' &&
    response !== null &&
    (('error' in response && isFault(response.error)) || 'result' in response))

/** Errors of connecting, after which no part of the message was sent. */
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
