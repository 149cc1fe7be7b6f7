/**
 * Load of keep-alive connections, each with one question at a time, made when it is asked: two connections never ask the same unless they
 * are told to. Times are exact, and an error in an answer is counted, which is a success of HTTP.
 */
import { Agent, request } from 'node:http'

export type Load = {
  readonly url: string
  readonly connections: number
  /** JSON of the next question; undefined: there is none. */
  next(): string | undefined
}
export type Loaded = {
  readonly answers: number
  /** To the last answer. */
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly errors: number
  readonly firstError: string | undefined
}
type Tally = {
  readonly latenciesMs: number[]
  errors: number
  firstError: string | undefined
}

/** Until there is no further question and all have their answers. @throws where a connection ends before its answer */
export async function load({ url, connections, next }: Load): Promise<Loaded> {
  const tally: Tally = { latenciesMs: [], errors: 0, firstError: undefined }
  const started = performance.now()
  await Promise.all(Array.from({ length: connections }, () => ask(new URL(url), next, tally)))
  const seconds = (performance.now() - started) / 1_000
  const sorted = tally.latenciesMs.toSorted((a, b) => a - b)
  const percentile = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
  return {
    answers: sorted.length - tally.errors,
    seconds,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    errors: tally.errors,
    firstError: tally.firstError,
  }
}

/** Questions of one connection, which is made anew where the server ends it. */
async function ask(url: URL, next: Load['next'], tally: Tally): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let body = next(); body !== undefined; body = next()) {
    const sent = performance.now()
    const { status, text } = await answerOf(url, agent, body)
    tally.latenciesMs.push(performance.now() - sent)
    if (status === 200 && !ERROR.test(text)) continue
    tally.errors++
    tally.firstError ??= `${status} ${text.slice(0, 300)}`
  }
  agent.destroy()
}
const ERROR = /"error":\s*\{/

/** Of a body that is longer, the begin is looked at: it says whether it is an error. */
const LOOKED_AT = 65_536

/** @throws where the connection ends before it is whole */
function answerOf(
  url: URL,
  agent: Agent,
  body: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const headers = { 'content-type': 'application/json', 'content-length': body.length }
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = ''
      response.setEncoding('latin1').on('data', (part: string) => {
        if (text.length < LOOKED_AT) text += part
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    sending.on('error', reject).end(body, 'latin1')
  })
}
