/** Records clients' requests and responses with the snapshot that each response was read from. */
import type { Client } from '../../rpc/core/client.ts'
import type { Responder, RpcResponse } from '../../rpc/core/exchange.ts'
import { isMachines } from './apart.ts'
import type { Apart, RequestBounds, RequestLine } from './lines.ts'
import { createPieces } from './pieces.ts'
import { digestsOf, partOf, repeatableOf, type Said } from './questions.ts'
import {
  createRequestContexts,
  type RequestContext,
  type RequestContexts,
} from './request-context.ts'

export interface RequestTaking extends RequestContexts {
  /**
   * Wraps a responder and records the requests within the limits.
   * @param newestSnapshot returns the number of the newest snapshot
   */
  responder(respond: Responder, newestSnapshot: () => number): Responder
  /** Resolves after sending all recorded lines. */
  close(): void
}

/** Slower responses are left out, because a replay reads only this far ahead, and a little more. */
export const LATE_MS = 20_000

export function takeRequests({
  bounds,
  emitLines,
}: {
  readonly bounds: RequestBounds
  readonly emitLines: (lines: Uint8Array<ArrayBuffer>) => void
}): RequestTaking {
  const requestContexts = createRequestContexts()
  const pieces = createPieces(emitLines)
  const budget = createBudget(bounds, (requests) =>
    pieces.add({ type: 'left', wall: Date.now(), requests }),
  )
  return {
    ...requestContexts,
    responder: (respond, newestSnapshot) => (body, client, prepaid) => {
      if (!budget.start(body.length)) return respond(body, client, prepaid)
      const startedAt = performance.now()
      const take = (response: RpcResponse, requestContext: RequestContext): RpcResponse => {
        const ms = performance.now() - startedAt
        if (client.isGone) return response
        const read = {
          ms,
          snapshot: requestContext.snapshot ?? newestSnapshot(),
          apart: requestContext.apart,
        }
        const line = ms > LATE_MS ? undefined : lineOf({ body, client, response }, read)
        if (line !== undefined && budget.end(line)) pieces.add(line)
        else budget.leave()
        return response
      }
      return requestContexts.run(() => respond(body, client, prepaid), take)
    },
    close() {
      budget.close()
      pieces.flush()
    },
  }
}

type ServedRequest = {
  readonly body: string
  readonly client: Client
  readonly response: RpcResponse
}
type Read = { readonly ms: number; readonly snapshot: number; readonly apart: Apart | undefined }

/** Returns undefined if the request is nested too deeply to be written. */
function lineOf(response: ServedRequest, read: Read): RequestLine | undefined {
  try {
    return writtenOf(response, read)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function writtenOf(
  { client, response, ...sent }: ServedRequest,
  { ms, snapshot, apart }: Read,
): RequestLine {
  const { methods, body, part, apart: of } = repeatableOf(sent.body)
  const { endpoint } = client
  const isSocket = client.notify !== undefined
  const rounded = Math.round(ms * 10) / 10
  const line = { type: 'request', wall: Date.now(), ms: rounded, endpoint, isSocket } as const
  const said = part === undefined ? response : partOf(response, part)
  const why = apart ?? (said === undefined || body === undefined ? of : machineOf(said))
  /*
   * The content of a request that is not repeated is left out, because a sent transaction may be
   * confidential.
   */
  if (why !== undefined || said === undefined || body === undefined)
    return { ...line, methods, record: snapshot, apart: why }
  const { minFlashblock } = client
  const requested = { body, minFlashblock, answers: digestsOf(said) }
  return { ...line, methods, record: snapshot, asked: requested }
}

const machineOf = (said: Said): Apart | undefined => (isMachines(said) ? 'machine' : undefined)

const SECOND_MS = 1_000
/**
 * Estimated bytes of a line and of each digest, beside the body and the beginnings of responses.
 */
const LINE_BYTES = 200
const DIGEST_BYTES = 60

/**
 * Limits the requests and bytes of each second.
 * @param onLeft called at most once a second with the number left out
 */
function createBudget(bounds: RequestBounds, onLeft: (requests: number) => void) {
  let since = Number.NEGATIVE_INFINITY
  let [requests, bytes, left] = [0, 0, 0]
  const reportLeft = () => {
    if (left > 0) onLeft(left)
    left = 0
  }
  const check = () => {
    const now = performance.now()
    if (now - since < SECOND_MS) return
    since = now
    requests = 0
    bytes = 0
    reportLeft()
  }
  return {
    /** Returns true if the request may be recorded; otherwise it counts as left out. */
    start(characters: number): boolean {
      check()
      const isWithin = requests < bounds.perSecond && bytes + characters <= bounds.bytesPerSecond
      if (isWithin) requests++
      else left++
      return isWithin
    },
    end({ asked: request }: RequestLine): boolean {
      check()
      const started = request?.answers.reduce(
        (sum, { begins }) => sum + begins.length + DIGEST_BYTES,
        0,
      )
      const length = (request?.body.length ?? 0) + (started ?? 0) + LINE_BYTES
      if (bytes + length > bounds.bytesPerSecond) return false
      bytes += length
      return true
    },
    leave() {
      left++
    },
    close: reportLeft,
  }
}
