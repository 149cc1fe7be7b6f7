/**
 * Packs requests to the persistence thread: a diff is transferred as one buffer instead of
 * thousands of values.
 */
import type { MessagePort } from 'node:worker_threads'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { decodeDiff, encodeDiff } from '../../engine/state/diff-codec.ts'
import type { PersistenceRequest } from '../../engine/storage/types.ts'

/** A request as plain data. */
export type PackedRequest = {
  /** The request, with an empty diff if the diff is packed. */
  readonly request: PersistenceRequest
  /** The encoded diff; undefined if the request has none, or an encoded one. */
  readonly diff: Bytes | undefined
  /** Time of the request in milliseconds since 1970; if undefined, the clock's time applies. */
  readonly wallMs?: number | undefined
}

/**
 * Sends a request. The sender retains the diff, except that of an append, which is transferred like
 * the promises.
 */
export function postRequest(
  port: Pick<MessagePort, 'postMessage'>,
  request: PersistenceRequest,
  wallMs?: number,
): void {
  switch (request.type) {
    case 'advance':
    case 'preview': {
      const diff = encodeDiff(request.diff)
      const packed: PackedRequest = { request: { ...request, diff: [] }, diff, wallMs }
      port.postMessage(packed, [diff.buffer])
      return
    }
    case 'append': {
      const packed: PackedRequest = { request, diff: undefined, wallMs }
      port.postMessage(packed, [request.block.diff.buffer])
      return
    }
    case 'promise': {
      const packed: PackedRequest = { request, diff: undefined, wallMs }
      port.postMessage(packed, [request.promised.transactions.buffer])
      return
    }
    default:
      port.postMessage({ request, diff: undefined, wallMs } satisfies PackedRequest)
  }
}

/** @throws {DiffError} if `postRequest` did not send the message */
export function unpackRequest({ request, diff }: PackedRequest): PersistenceRequest {
  if (request.type !== 'advance' && request.type !== 'preview') return request
  return diff === undefined ? request : { ...request, diff: decodeDiff(diff) }
}
