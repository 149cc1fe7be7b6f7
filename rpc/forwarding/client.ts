/**
 * JSON-RPC over HTTP to the node that has the chain before this node's: bounded in time and bytes.
 */
import { withoutAddresses } from '../../engine/sources/upstream/error.ts'
import { broken, RpcError, type RpcErrorObject, responseTooLarge } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import { abortAfter, type Now } from '../core/timeout.ts'
import { codeOf } from './failures.ts'
import { addressed, textWithin } from './posting.ts'

/** Name of the node in errors, so that clients do not learn its host. */
const NODE = 'the node of the older chain'

export type ForwardingReply = { readonly result: unknown } | { readonly error: RpcErrorObject }
export interface ForwardingClient {
  /**
   * Sends a call; it never rejects. An error is the other node's own, or describes the failed
   * request.
   */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<ForwardingReply>
}

/**
 * Creates the client.
 * @param options `url` must be valid; its user and password go into a header
 */
export function createForwardingClient(options: {
  readonly url: string
  readonly limits: Pick<Limits, 'legacyMs' | 'legacyResponseBytes'>
  readonly now: Now
}): ForwardingClient {
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
        return { error: forwardingError(reason).toObject() }
      } finally {
        timeout.end()
      }
    },
  }
}

/**
 * Reads the reply from a response text.
 * @throws {RpcError}
 */
function replyOf(text: string, { ok, status }: Response): ForwardingReply {
  let response: unknown
  if (isDeeperThan(text, MAX_DEPTH))
    throw broken(
      `Invalid legacy response: ${NODE} answered with JSON nested deeper than ${MAX_DEPTH}`,
    )
  try {
    response = JSON.parse(text)
  } catch {
    if (!ok) throw forwardingError(`${NODE} answered with HTTP ${status}`)
    throw broken(`Legacy parse error: ${NODE} answered with something that is not JSON`)
  }
  if (typeof response === 'object' && response !== null) {
    // Some nodes send both members, one of them null.
    const { result, error } = response as { readonly result?: unknown; readonly error?: unknown }
    if (isErrorObject(error)) {
      const { code, message, data } = error
      const open = withoutAddresses(message, NODE)
      return { error: { code, message: open, ...(data === undefined ? {} : { data }) } }
    }
    if (result !== undefined) return { result }
  }
  if (!ok) throw forwardingError(`${NODE} answered with HTTP ${status}`)
  throw broken(`Invalid legacy response: ${NODE} gave neither a result nor an error`)
}

/**
 * A trace of 1,024 nested calls is 2,050 deep. JSON.stringify writes the response, and runs out of
 * stack between 4,000 and 8,000 (Node 24, 2026-11).
 */
const MAX_DEPTH = 3_000

/** Tells whether arrays and objects of a JSON text are nested deeper than `depth`. */
function isDeeperThan(text: string, depth: number): boolean {
  let open = 0
  let isInString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) isInString = !isInString
    else if (isInString) at += code === BACKSLASH ? 1 : 0
    else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      if (++open > depth) return true
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) open--
  }
  return false
}
const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

function isErrorObject(value: unknown): value is RpcErrorObject {
  if (typeof value !== 'object' || value === null) return false
  const { code, message } = value as { readonly code?: unknown; readonly message?: unknown }
  return Number.isSafeInteger(code) && typeof message === 'string'
}

function unreached(error: unknown): string {
  const code = codeOf(error)
  return `${NODE} cannot be reached${code === undefined ? '' : ` (${code})`}`
}

const forwardingError = (reason: string): RpcError => broken(`Legacy RPC error: ${reason}`)
