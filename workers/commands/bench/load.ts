/**
 * Load by autocannon: each connection has one message at a time, which is made when it is sent.
 * Times are exact; autocannon's own times are rounded by its histogram. Each response is compared
 * with an expected text, or has to be free of errors. All of `bench/` uses this load.
 */
import autocannon, { type Client } from 'autocannon'
import { addressed, textWithin } from '../../../rpc/forwarding/posting.ts'
import type { RpcCall } from '../shared/rpc-client.ts'

export type Message = {
  readonly body: string
  /** The expected text; undefined accepts every response without an error. */
  readonly response?: string
}
export type Load = {
  readonly url: string
  readonly connections: number
  /** Returns undefined at the end of the run, which then waits for open responses. */
  next(): Message | undefined
}
export type Loaded = {
  readonly responses: number
  /** Time up to the last response. */
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly wrong: number
  /**
   * Counts an HTTP status other than 200, a missing response, or an error where no text is
   * expected.
   */
  readonly failed: number
  readonly firstFailure: string | undefined
}
type Tally = {
  readonly timesMs: number[]
  wrong: number
  failed: number
  firstFailure: string | undefined
  endedAtMs: number
}

const RESPONSE_MS = 60_000
const MAX_BYTES = 256 * 2 ** 20
/** The connections end a run, because autocannon's own clock drops requests that wait. */
const FOREVER_S = 1_000_000
/** autocannon notices the end of the last connection within this time. */
const CHECK_MS = 10

export const bodyOf = (questions: readonly RpcCall[]): string => {
  const calls = questions.map((question, id) => ({ jsonrpc: '2.0', id, ...question }))
  return JSON.stringify(calls.length === 1 ? calls[0] : calls)
}

export async function load({ url, connections, next }: Load): Promise<Loaded> {
  const tally: Tally = { timesMs: [], wrong: 0, failed: 0, firstFailure: undefined, endedAtMs: 0 }
  const firsts: Message[] = []
  for (let first = next(); first !== undefined; first = next()) {
    firsts.push(first)
    if (firsts.length === connections) break
  }
  const startedMs = performance.now()
  if (firsts.length > 0)
    await autocannon({
      url,
      connections: firsts.length,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      timeout: RESPONSE_MS / 1_000,
      duration: FOREVER_S,
      sampleInt: CHECK_MS,
      setupClient: (client) => requestAll(client, { first: firsts.pop()!, next, tally }),
    })
  const { timesMs, wrong, failed, firstFailure, endedAtMs } = tally
  const sorted = timesMs.toSorted((a, b) => a - b)
  const share = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0
  return {
    responses: sorted.length - wrong,
    seconds: (endedAtMs - startedMs) / 1_000,
    wrong,
    failed,
    firstFailure,
    p50Ms: share(0.5),
    p99Ms: share(0.99),
  }
}

/** Makes a client of autocannon send one message after the other, and counts the responses. */
function requestAll(
  client: Client,
  { first, next, tally }: { readonly first: Message; next(): Message | undefined; tally: Tally },
): void {
  let message = first
  let [sentAtMs, bytes, isWaiting, isPersistent, isClosing] = [0, 0, false, true, false]
  let parts: Buffer[] = []
  let cause: Error | undefined

  const goOn = (failure: string | undefined): void => {
    tally.endedAtMs = performance.now()
    if (failure !== undefined) {
      tally.failed++
      tally.firstFailure ??= failure
    }
    const following = next()
    if (following === undefined) client.destroy()
    else message = following
  }
  const refuseLost = (): void => {
    const isLate = performance.now() - sentAtMs >= RESPONSE_MS
    goOn(isLate ? `no answer within ${RESPONSE_MS} ms` : (cause?.message ?? 'socket hang up'))
    cause = undefined
  }

  // autocannon decodes each part alone, which breaks a character that two parts share.
  client.pipelinedRequests.addBody = (part) => {
    parts.push(part)
    bytes += part.length
    if (bytes > MAX_BYTES) client.conn.destroy(new Error(`more than ${MAX_BYTES} bytes`))
  }
  client.on('connError', (error: Error) => {
    cause = error
  })
  client.on('headers', ({ shouldKeepAlive }: { readonly shouldKeepAlive: boolean }) => {
    isPersistent = shouldKeepAlive
  })
  client.setRequests([
    {
      setupRequest(request) {
        // autocannon would read the next response as the rest of the broken one.
        if (isWaiting && !client.destroyed) {
          client.parser.reinitialize('RESPONSE')
          client.pipelinedRequests.clear()
          parts = []
          // A server that announced its close never read this message, which is sent again.
          if (!isClosing) refuseLost()
          isClosing = false
        }
        isWaiting = true
        bytes = 0
        sentAtMs = performance.now()
        return { ...request, body: message.body }
      },
      onResponse(status) {
        const tookMs = performance.now() - sentAtMs
        const text = Buffer.concat(parts).toString()
        parts = []
        isWaiting = false
        isClosing = !isPersistent
        const failure = failureOf(client, status, text) ?? errorOf(message, text)
        if (failure === undefined) {
          tally.timesMs.push(tookMs)
          if (message.response !== undefined && text !== message.response) tally.wrong++
        }
        goOn(failure)
      },
    },
  ])
}

/** Certificates are checked here, because autocannon accepts all of them. */
function failureOf({ conn }: Client, status: number, text: string): string | undefined {
  if (conn.authorized === false) return `TLS: ${String(conn.authorizationError)}`
  return status === 200 ? undefined : `HTTP ${status} ${text.slice(0, 200)}`
}

const ERROR = /"error":\s*\{/
/** Only this much of a longer response is searched for an error. */
const CHECKED_BYTES = 65_536
const SAID = 300

const errorOf = ({ response }: Message, text: string): string | undefined =>
  response === undefined && ERROR.test(text.slice(0, CHECKED_BYTES))
    ? text.slice(0, SAID)
    : undefined

/** @throws {Error} if there is no response, or its HTTP status is not 200 */
export async function responseOf(url: string, body: string): Promise<string> {
  const { target, headers } = addressed(new URL(url))
  const signal = AbortSignal.timeout(RESPONSE_MS)
  const redirect = 'manual'
  const response = await fetch(target, { method: 'POST', headers, body, signal, redirect })
  const tooLong = () => new Error(`more than ${MAX_BYTES} bytes`)
  const text = await textWithin(response, MAX_BYTES, tooLong)
  if (response.status !== 200) throw new Error(`HTTP ${response.status} ${text.slice(0, 200)}`)
  return text
}
