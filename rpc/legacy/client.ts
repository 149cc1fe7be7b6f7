/** JSON-RPC over HTTP to the node that has the chain before this one: one call at a time, bounded in time and bytes. */
import { broken, RpcError, type RpcErrorObject, responseTooLarge } from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'
import { abortAfter, type Now } from '../seam/patience.ts'
import { addressed, reasonOf, textWithin } from './posting.ts'

export type LegacyReply = { readonly result: unknown } | { readonly error: RpcErrorObject }
export interface LegacyClient {
  /** Never rejects. Its errors are the other node's own, or say what went wrong on the way there. */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<LegacyReply>
}

/** @param options `url`: valid; a user and a password in it go into a header */
export function createLegacyClient(options: {
  readonly url: string
  readonly limits: Pick<Limits, 'legacyMs' | 'legacyResponseBytes'>
  readonly now: Now
}): LegacyClient {
  const { limits, now } = options
  const { target, headers } = addressed(new URL(options.url))
  // A path or a query may hold a key: messages name the rest.
  const { origin } = target
  const { legacyMs, legacyResponseBytes } = limits
  const tooLong = (bytes: number) => responseTooLarge(bytes, legacyResponseBytes)
  return {
    async call(method, params, signal) {
      const timeout = abortAfter(legacyMs, now)
      try {
        const response = await fetch(target, {
          method: 'POST',
          headers,
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
          signal: AbortSignal.any([timeout.signal, signal]),
          redirect: 'error',
        })
        const text = await textWithin(response, legacyResponseBytes, tooLong)
        return replyOf(text, response, origin)
      } catch (error) {
        if (error instanceof RpcError) return { error: error.toObject() }
        const reason = timeout.signal.aborted
          ? `no answer from ${origin} within ${legacyMs} ms`
          : `cannot reach ${origin}: ${reasonOf(error)}`
        return { error: legacyError(reason).toObject() }
      } finally {
        timeout.end()
      }
    },
  }
}

/** @throws {RpcError} */
function replyOf(text: string, { ok, status }: Response, origin: string): LegacyReply {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch (error) {
    if (!ok) throw legacyError(`${origin} answered with HTTP ${status}`)
    throw broken(`Legacy parse error: ${origin}: ${(error as Error).message}`)
  }
  if (typeof answer === 'object' && answer !== null) {
    // Some nodes have both, one of them null.
    const { result, error } = answer as { readonly result?: unknown; readonly error?: unknown }
    if (isErrorObject(error)) {
      const { code, message, data } = error
      return { error: { code, message, ...(data === undefined ? {} : { data }) } }
    }
    if (result !== undefined) return { result }
  }
  if (!ok) throw legacyError(`${origin} answered with HTTP ${status}`)
  throw broken(`Invalid legacy response: ${origin} gave neither a result nor an error`)
}

function isErrorObject(value: unknown): value is RpcErrorObject {
  if (typeof value !== 'object' || value === null) return false
  const { code, message } = value as { readonly code?: unknown; readonly message?: unknown }
  return Number.isSafeInteger(code) && typeof message === 'string'
}

const legacyError = (reason: string): RpcError => broken(`Legacy RPC error: ${reason}`)
