/** JSON-RPC over HTTP to the node that has the chain before this one: one call at a time, bounded in time and bytes. */
import { withoutAddresses } from '../../engine/sources/upstream/error.ts'
import { broken, RpcError, type RpcErrorObject, responseTooLarge } from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'
import { abortAfter, type Now } from '../seam/patience.ts'
import { codeOf } from './failures.ts'
import { addressed, textWithin } from './posting.ts'

/** Clients learn no host of it. */
const NODE = 'the node of the older chain'

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
        return replyOf(text, response)
      } catch (error) {
        if (error instanceof RpcError) return { error: error.toObject() }
        const reason = timeout.signal.aborted
          ? `${NODE} gave no answer within ${legacyMs} ms`
          : unreached(error)
        return { error: legacyError(reason).toObject() }
      } finally {
        timeout.end()
      }
    },
  }
}

/** @throws {RpcError} */
function replyOf(text: string, { ok, status }: Response): LegacyReply {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    if (!ok) throw legacyError(`${NODE} answered with HTTP ${status}`)
    throw broken(`Legacy parse error: ${NODE} answered with something that is not JSON`)
  }
  if (typeof answer === 'object' && answer !== null) {
    // Some nodes have both, one of them null.
    const { result, error } = answer as { readonly result?: unknown; readonly error?: unknown }
    if (isErrorObject(error)) {
      const { code, message, data } = error
      const open = withoutAddresses(message, NODE)
      return { error: { code, message: open, ...(data === undefined ? {} : { data }) } }
    }
    if (result !== undefined) return { result }
  }
  if (!ok) throw legacyError(`${NODE} answered with HTTP ${status}`)
  throw broken(`Invalid legacy response: ${NODE} gave neither a result nor an error`)
}

function isErrorObject(value: unknown): value is RpcErrorObject {
  if (typeof value !== 'object' || value === null) return false
  const { code, message } = value as { readonly code?: unknown; readonly message?: unknown }
  return Number.isSafeInteger(code) && typeof message === 'string'
}

function unreached(error: unknown): string {
  const code = codeOf(error)
  return `${NODE} cannot be reached${code === undefined ? '' : ` (${code})`}`
}

const legacyError = (reason: string): RpcError => broken(`Legacy RPC error: ${reason}`)
