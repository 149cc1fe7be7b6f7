/**
 * Load by autocannon: each connection has one message at a time, which is made when it is sent.
 * Times are exact, because autocannon's own are put into a histogram. Each answer is compared with
 * the one that was given before, or must be no error. All of `bench/` uses this load.
 */
import autocannon, { type Client } from 'autocannon'
import { addressed, textWithin } from '../../../rpc/legacy/posting.ts'
import type { Asked } from '../shared/asking.ts'

export type Message = {
  readonly body: string
  /** The text that is right; undefined: whatever is no error. */
  readonly answer?: string
}
export type Load = {
  readonly url: string
  readonly connections: number
  /** undefined: it is over, once all have their answers. */
  next(): Message | undefined
}
export type Loaded = {
  /** Right ones. */
  readonly answers: number
  /** To the last answer. */
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly wrong: number
  /** HTTP other than 200, no answer at all, or an error where no answer was given before. */
  readonly failed: number
  /** Of those. */
  readonly firstFailure: string | undefined
}
type Tally = {
  readonly timesMs: number[]
  wrong: number
  failed: number
  firstFailure: string | undefined
  endedAtMs: number
}

/** No node is given more time for one answer. */
const ANSWER_MS = 60_000
/** Of an answer. */
const MOST_BYTES = 256 * 2 ** 20
/** The connections end a run, because autocannon's clock drops requests that wait. */
const FOREVER_S = 1_000_000
/** autocannon notices within this time that the last connection has ended. */
const LOOK_MS = 10

export const bodyOf = (questions: readonly Asked[]): string => {
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
      timeout: ANSWER_MS / 1_000,
      duration: FOREVER_S,
      sampleInt: LOOK_MS,
      setupClient: (client) => askAll(client, { first: firsts.pop()!, next, tally }),
    })
  const { timesMs, wrong, failed, firstFailure, endedAtMs } = tally
  const sorted = timesMs.toSorted((a, b) => a - b)
  const share = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0
  return {
    answers: sorted.length - wrong,
    seconds: (endedAtMs - startedMs) / 1_000,
    wrong,
    failed,
    firstFailure,
    p50Ms: share(0.5),
    p99Ms: share(0.99),
  }
}

/** Makes a client of autocannon send one message after the other, and counts the answers. */
function askAll(
  client: Client,
  { first, next, tally }: { readonly first: Message; next(): Message | undefined; tally: Tally },
): void {
  let message = first
  let [sentAtMs, bytes, isWaiting, isKept, isClosing] = [0, 0, false, true, false]
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
    const isLate = performance.now() - sentAtMs >= ANSWER_MS
    goOn(isLate ? `no answer within ${ANSWER_MS} ms` : (cause?.message ?? 'socket hang up'))
    cause = undefined
  }

  // autocannon decodes each part by itself, which spoils a character that stands in two parts.
  client.pipelinedRequests.addBody = (part) => {
    parts.push(part)
    bytes += part.length
    if (bytes > MOST_BYTES) client.conn.destroy(new Error(`more than ${MOST_BYTES} bytes`))
  }
  client.on('connError', (error: Error) => {
    cause = error
  })
  client.on('headers', ({ shouldKeepAlive }: { readonly shouldKeepAlive: boolean }) => {
    isKept = shouldKeepAlive
  })
  client.setRequests([
    {
      setupRequest(request) {
        // autocannon reads what a new connection sends as the rest of the answer that was cut off.
        if (isWaiting && !client.destroyed) {
          client.parser.reinitialize('RESPONSE')
          client.pipelinedRequests.clear()
          parts = []
          // A server that announced its close has not read this message, which is sent again.
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
        isClosing = !isKept
        const failure = failureOf(client, status, text) ?? errorOf(message, text)
        if (failure === undefined) {
          tally.timesMs.push(tookMs)
          if (message.answer !== undefined && text !== message.answer) tally.wrong++
        }
        goOn(failure)
      },
    },
  ])
}

/** A certificate is judged here, because autocannon accepts each. */
function failureOf({ conn }: Client, status: number, text: string): string | undefined {
  if (conn.authorized === false) return `TLS: ${String(conn.authorizationError)}`
  return status === 200 ? undefined : `HTTP ${status} ${text.slice(0, 200)}`
}

const ERROR = /"error":\s*\{/
/** Of an answer that is longer, the begin is looked at: it says whether it is an error. */
const LOOKED_AT = 65_536
const SAID = 300

const errorOf = ({ answer }: Message, text: string): string | undefined =>
  answer === undefined && ERROR.test(text.slice(0, LOOKED_AT)) ? text.slice(0, SAID) : undefined

/** @throws {Error} where there is no answer, or HTTP says other than 200 */
export async function answerOf(url: string, body: string): Promise<string> {
  const { target, headers } = addressed(new URL(url))
  const signal = AbortSignal.timeout(ANSWER_MS)
  const redirect = 'manual'
  const response = await fetch(target, { method: 'POST', headers, body, signal, redirect })
  const tooLong = () => new Error(`more than ${MOST_BYTES} bytes`)
  const text = await textWithin(response, MOST_BYTES, tooLong)
  if (response.status !== 200) throw new Error(`HTTP ${response.status} ${text.slice(0, 200)}`)
  return text
}
