/**
 * Load of keep-alive connections, each with one message at a time, made when it is sent: two connections never send the same unless they are
 * told to. Times are exact; each answer is held to the one that was given before, or to be no error. `bench/` has its load from here too.
 */
import { Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent as SecureAgent, request as secureRequest } from 'node:https'
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

/** No node is given more time for one answer. */
const ANSWER_MS = 60_000
/** Of an answer. */
const MOST_BYTES = 256 * 2 ** 20
/** A connection that fails at once would do nothing else. */
const REST_MS = 20

export const bodyOf = (questions: readonly Asked[]): string => {
  const calls = questions.map((question, id) => ({ jsonrpc: '2.0', id, ...question }))
  return JSON.stringify(calls.length === 1 ? calls[0] : calls)
}

export async function load({ url, connections, next }: Load): Promise<Loaded> {
  const times: number[] = []
  let [wrong, failed] = [0, 0]
  let firstFailure: string | undefined
  const started = performance.now()
  const askAll = async () => {
    const client = openClient(url)
    for (let message = next(); message !== undefined; message = next()) {
      const sent = performance.now()
      try {
        const text = await client.ask(message.body)
        const took = performance.now() - sent
        if (message.answer === undefined) refuseError(text)
        else if (text !== message.answer) wrong++
        times.push(took)
      } catch (error) {
        failed++
        firstFailure ??= (error as Error).message
        await new Promise((resolve) => setTimeout(resolve, REST_MS))
      }
    }
    client.close()
  }
  await Promise.all(Array.from({ length: connections }, askAll))
  const seconds = (performance.now() - started) / 1_000
  const sorted = times.toSorted((a, b) => a - b)
  const share = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0
  return {
    ...{ answers: sorted.length - wrong, seconds, wrong, failed, firstFailure },
    ...{ p50Ms: share(0.5), p99Ms: share(0.99) },
  }
}

const ERROR = /"error":\s*\{/
/** Of an answer that is longer, the begin is looked at: it says whether it is an error. */
const LOOKED_AT = 65_536
const SAID = 300

/** @throws {Error} */
function refuseError(text: string): void {
  if (ERROR.test(text.slice(0, LOOKED_AT))) throw new Error(text.slice(0, SAID))
}

export interface Client {
  /** @throws {Error} where there is no answer, or HTTP says other than 200 */
  ask(body: string): Promise<string>
  close(): void
}

/** One connection, made again where the node ends it. */
export function openClient(url: string): Client {
  const target = new URL(url)
  const isSecure = target.protocol === 'https:'
  const options = { keepAlive: true, maxSockets: 1 }
  const agent = isSecure ? new SecureAgent(options) : new PlainAgent(options)
  const send = isSecure ? secureRequest : plainRequest
  return {
    ask: (body) =>
      new Promise((resolve, reject) => {
        const headers = {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        }
        const asking = send(
          target,
          { method: 'POST', agent, headers, timeout: ANSWER_MS },
          (response) => {
            let [text, bytes] = ['', 0]
            response.setEncoding('utf8').on('data', (part: string) => {
              bytes += part.length
              if (bytes > MOST_BYTES) asking.destroy(new Error(`more than ${MOST_BYTES} bytes`))
              else text += part
            })
            response.on('error', reject).on('end', () => {
              if (response.statusCode === 200) resolve(text)
              else reject(new Error(`HTTP ${response.statusCode} ${text.slice(0, 200)}`))
            })
          },
        )
        asking.on('timeout', () => asking.destroy(new Error(`no answer within ${ANSWER_MS} ms`)))
        asking.on('error', reject).end(body)
      }),
    close: () => agent.destroy(),
  }
}
