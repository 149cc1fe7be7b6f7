/** What the keeper is asked, on its way to its thread: a diff crosses as one buffer that changes hands, not as thousands of values. */
import type { MessagePort } from 'node:worker_threads'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { decodeDiff, encodeDiff } from '../../engine/state/diff-codec.ts'
import type { KeeperRequest } from '../../engine/storage/types.ts'

/** Plain data. */
export type PackedRequest = {
  /** Its diff is empty, where it is packed. */
  readonly request: KeeperRequest
  /** encodeDiff of the request's diff; undefined: it has none, or an encoded one. */
  readonly diff: Bytes | undefined
  /** Milliseconds since 1970 at which it is taken to be done; undefined: what the clock says. */
  readonly wallMs?: number | undefined
}

/** Sends a request; its diff stays the sender's, that of an append goes, as what was promised does. */
export function postRequest(
  port: Pick<MessagePort, 'postMessage'>,
  request: KeeperRequest,
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

/** @throws {DiffError} when it was not sent by `postRequest` */
export function unpackRequest({ request, diff }: PackedRequest): KeeperRequest {
  if (request.type !== 'advance' && request.type !== 'preview') return request
  return diff === undefined ? request : { ...request, diff: decodeDiff(diff) }
}
