/** What the keeper is asked, on its way to its thread: a diff crosses as one buffer that changes hands, not as thousands of values. */
import type { MessagePort } from 'node:worker_threads'
import type { Bytes } from '../engine/primitives/bytes.ts'
import type { StateDiff } from '../engine/state/diff.ts'
import { decodeDiff, encodeDiff } from '../engine/state/diff-codec.ts'
import type { KeeperRequest } from '../engine/storage/types.ts'

/** Plain data. */
export type PackedRequest = {
  /** Its diff is empty. */
  readonly request: KeeperRequest
  /** encodeDiff of the request's diff. */
  readonly diff: Bytes | undefined
}

/** Sends a request; its diff stays the sender's. */
export function postRequest(port: Pick<MessagePort, 'postMessage'>, request: KeeperRequest): void {
  const diff = diffOf(request)
  if (diff === undefined) {
    port.postMessage({ request, diff } satisfies PackedRequest)
    return
  }
  const packed = { request: withDiff(request, { diff: [] }), diff: encodeDiff(diff) }
  port.postMessage(packed satisfies PackedRequest, [packed.diff.buffer])
}

/** @throws {DiffError} when it was not sent by `postRequest` */
export function unpackRequest({ request, diff }: PackedRequest): KeeperRequest {
  if (diff === undefined) return request
  return withDiff(request, { diff: decodeDiff(diff), encodedDiff: diff })
}

function diffOf(request: KeeperRequest): StateDiff | undefined {
  if (request.type === 'append') return request.block.diff
  return request.type === 'advance' || request.type === 'preview' ? request.diff : undefined
}

function withDiff(
  request: KeeperRequest,
  { diff, encodedDiff }: { readonly diff: StateDiff; readonly encodedDiff?: Bytes },
): KeeperRequest {
  if (request.type === 'append')
    return { ...request, block: { ...request.block, diff, encodedDiff } }
  return request.type === 'advance' || request.type === 'preview' ? { ...request, diff } : request
}
