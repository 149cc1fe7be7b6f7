/** Load of keep-alive connections, each with one message on its way. Times are exact; each answer is held to the one that was given before. */
import { Agent as PlainAgent, request as plainRequest } from 'node:http'
import { Agent as SecureAgent, request as secureRequest } from 'node:https'
import type { Asked } from '../shared/asking.ts'

export type Message = {
  readonly body: string
  /** The answer's text; undefined: it is not looked at. */
  readonly answer: string | undefined
}
export type Loaded = {
  /** Right ones. */
  readonly answers: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly wrong: number
  /** HTTP other than 200, or no answer at all. */
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

/** @param next the next message; undefined: it is over */
export async function load(
  url: string,
  connections: number,
  next: () => Message | undefined,
): Promise<Loaded> {
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
        times.push(performance.now() - sent)
        if (message.answer !== undefined && text !== message.answer) wrong++
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
