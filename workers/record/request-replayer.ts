/**
 * Repeats the recorded client requests at the snapshots of their responses, and compares the
 * responses.
 */
import type { Responder, RpcResponse } from '../../rpc/core/exchange.ts'
import { NOTHING_PREPAID } from '../../rpc/core/prepaid.ts'
import { isMachines, WHY_APART } from './apart.ts'
import type { Apart, Question, RequestLine, ResponseDigest, VisibleHeads } from './lines.ts'
import type { ReplayLine } from './lookahead.ts'
import { digestsOf, requestOf } from './questions.ts'
import type { RequestContexts } from './request-context.ts'

/** The newest snapshot of the replay, and its visible heads if they are known. */
export type ReplayPosition = { readonly snapshot: number; readonly shown: VisibleHeads | undefined }

export interface RequestReplayer {
  /** Resolves when all of them are answered. */
  request(lines: readonly ReplayLine[], at: ReplayPosition): Promise<void>
  readonly counts: Counts
}
export type Counts = {
  readonly asked: number
  readonly same: number
  readonly different: number
  /** Counts by reason. */
  readonly notAsked: Readonly<Record<string, number>>
  /** Requests that the recording left out because of its limits. */
  readonly leftOut: number
  /** The first differences. */
  readonly differences: readonly Difference[]
}
export type Difference = {
  /** Method of the first item that differs; '' if there is none. */
  readonly method: string
  readonly endpoint: string
  readonly record: number
  /** `number.index` of the pending block at that time. */
  readonly place: string | undefined
  /** Beginnings of the texts that differ. */
  readonly body: string
  readonly was: string
  readonly is: string
}

const MAX_DIFFERENCES = 20
const BODY_CHARACTERS = 512
/** A request that times out is tried this many times in all. */
const TRIES = 3

/**
 * @param respond responder of the replaying node, whose txpool may differ from the recorded one
 * @param requestContexts contexts of this responder
 */
export function createRequestReplayer(
  respond: Responder,
  {
    atOnce,
    requestContexts,
  }: { readonly atOnce: number; readonly requestContexts: RequestContexts },
): RequestReplayer {
  const counts = { asked: 0, same: 0, different: 0, leftOut: 0 }
  const notRequested: Record<string, number> = {}
  const differences: Difference[] = []
  const leave = (why: string) => {
    notRequested[why] = (notRequested[why] ?? 0) + 1
  }

  async function requestOne(line: RequestLine, at: ReplayPosition): Promise<void> {
    const { asked: request, apart, record } = line
    if (request === undefined) return leave(WHY_APART[apart ?? 'views'])
    if (record !== at.snapshot) return leave(record < at.snapshot ? BETWEEN : BEYOND)
    const { response, of } = await requestWithin(
      () => repeatRequest(respond, line, request),
      requestContexts,
    )
    if (of !== undefined) return leave(of === 'machine' ? TOO_SLOW : WHY_APART[of])
    counts.asked++
    const found = digestsOf(response)
    const other = found.findIndex((one, item) => !isSame(one, request.answers[item]))
    if (other < 0 && found.length === request.answers.length) {
      counts.same++
      return
    }
    counts.different++
    if (differences.length < MAX_DIFFERENCES)
      differences.push(differenceOf(line, request, { found, item: Math.max(0, other), at }))
  }
  return {
    async request(lines, at) {
      const waiting = lines.values()
      const one = async (): Promise<void> => {
        for (const line of waiting)
          if (line.type === 'left') counts.leftOut += line.requests
          else await requestOne(line, at)
      }
      await Promise.all(Array.from({ length: atOnce }, one))
    },
    get counts() {
      return { ...counts, notAsked: notRequested, differences }
    },
  }
}

const BETWEEN = 'read from a view that was replaced within one event'
const BEYOND = 'read from a view that the record does not reach'
const TOO_SLOW = 'this machine was too slow for them'

/** Replayed requests are not charged. */
const FULLY_PREPAID = { ...NOTHING_PREPAID, points: Number.MAX_SAFE_INTEGER }
const ADDRESS = 'replay'

type Tried = { readonly response: RpcResponse; readonly of: Apart | undefined }

/**
 * @returns the response, and the reason why it cannot be compared; 'machine' if it timed out each
 * time
 */
async function requestWithin(
  request: () => RpcResponse | Promise<RpcResponse>,
  requestContexts: RequestContexts,
): Promise<Tried> {
  let of: Apart | undefined
  const once = () =>
    requestContexts.run(request, (response, requestContext) => {
      of = requestContext.apart ?? (isMachines(response) ? 'machine' : undefined)
      return response
    })
  let responded = await once()
  for (let tries = 1; tries < TRIES && of === 'machine'; tries++) responded = await once()
  return { response: responded, of }
}

function repeatRequest(
  respond: Responder,
  { endpoint, isSocket }: RequestLine,
  { body, minFlashblock }: Question,
): RpcResponse | Promise<RpcResponse> {
  const { signal } = new AbortController()
  const notify = isSocket ? () => true : undefined
  const client = { address: ADDRESS, endpoint, notify, minFlashblock, isGone: false, signal }
  return respond(body, client, FULLY_PREPAID)
}

const isSame = (a: ResponseDigest, b: ResponseDigest | undefined): boolean =>
  a.hash === b?.hash && a.bytes === b.bytes

function differenceOf(
  { endpoint, record }: RequestLine,
  request: Question,
  {
    found,
    item,
    at: { shown },
  }: {
    readonly found: readonly ResponseDigest[]
    readonly item: number
    readonly at: ReplayPosition
  },
): Difference {
  const { body, method } = requestOf(request.body, item)
  const isKnown = shown !== undefined && shown.record === record
  return {
    method: method ?? '',
    endpoint,
    record,
    place: isKnown ? `${shown.pending}.${shown.index}` : undefined,
    body: body.slice(0, BODY_CHARACTERS),
    was: prefixOf(request.answers[item]),
    is: prefixOf(found[item]),
  }
}

const prefixOf = (digest: ResponseDigest | undefined): string => {
  if (digest === undefined) return ''
  const { begins, bytes } = digest
  return bytes <= begins.length ? begins : `${begins}… (${bytes} characters)`
}
