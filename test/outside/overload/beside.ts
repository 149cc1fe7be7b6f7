/** Ordinary clients run beside the load: they send steady calls with known results. */
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { bodyOf, type From, post as send } from '../../kit/client.ts'
import { INCREMENT } from './contracts.ts'

export type Beside = {
  readonly right: number
  /** Timeouts, which are right responses of a busy machine; they are reported, not judged. */
  readonly late: number
  readonly wrong: readonly string[]
  /** The milliseconds within which 99 of 100 calls had their responses. */
  readonly p99: number
  readonly slowest: number
}
export type Clients = {
  /** Stops the clients and gives their results. */
  stop(): Promise<Beside>
}

export type Reply = {
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

/** This many clients send at the same time, each with a pause after a response. */
const CLIENTS = 4
const PAUSE_MS = 10

export function startClients(url: string, random: () => number): Clients {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const times: number[] = []
  const wrong: string[] = []
  let right = 0
  let late = 0
  let isOver = false

  async function sendRequest(): Promise<void> {
    const path = random() < 0.5 ? '/' : '/flashblocks'
    const number = Math.floor(random() * 2 ** 32)
    const request = random() < 0.75 ? increment(number) : { method: 'eth_getBalance', params: RICH }
    const wanted = request.method === 'eth_call' ? word(number + 1) : BALANCE
    const startedAt = performance.now()
    const { result, error } = await post(`${url}${path}`, request, { agent })
    times.push(performance.now() - startedAt)
    if (result === wanted) right++
    else if (error?.code === -32002) late++
    else if (wrong.length < 20)
      wrong.push(`${request.method}: ${error === undefined ? result : JSON.stringify(error)}`)
  }
  const running = Array.from({ length: CLIENTS }, async () => {
    while (!isOver) {
      await sendRequest().catch((error: Error) => {
        wrong.push(error.message)
      })
      await sleep(PAUSE_MS)
    }
  })
  return {
    async stop() {
      isOver = true
      await Promise.all(running)
      agent.destroy()
      times.sort((a, b) => a - b)
      const at = (part: number) => Math.round(times[Math.floor(times.length * part)] ?? 0)
      return { right, late, wrong, p99: at(0.99), slowest: at(1 - 1e-9) }
    },
  }
}

const word = (number: number) => `0x${number.toString(16).padStart(64, '0')}`
/** Makes a call of little gas whose result is its number plus one. */
export const increment = (number: number) => ({
  method: 'eth_call',
  params: [{ to: INCREMENT.address, data: word(number), gas: '0x186a0' }, 'latest'],
})
/** No test spends from the tenth account of the mnemonic. */
const RICH = ['0xa0ee7a142d267c1f36714e4a8f75612f20a79720', 'latest']
const BALANCE = `0x${(10_000n * 10n ** 18n).toString(16)}`

/**
 * Sends one call over HTTP.
 * @throws where the connection fails
 */
export const post = (
  url: string,
  { method, params }: { readonly method: string; readonly params: readonly unknown[] },
  from: From = {},
): Promise<Reply> => postBody(url, bodyOf(method, params), from) as Promise<Reply>

/**
 * Sends a body unchanged and gives the decoded response.
 * @throws where the connection fails
 */
export async function postBody(url: string, body: string, from: From = {}): Promise<unknown> {
  const { status, text } = await send(url, body, from)
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`HTTP ${status}: ${text.slice(0, 80)}`)
  }
}

/** Formats the clients' results as one line. */
export const besideText = ({ right, late, p99, slowest }: Beside): string =>
  `${right} right answers beside, ${late} timeouts, 99 of 100 within ${p99} ms, all within ${slowest} ms`
/** Whether the clients got only their results or timeouts, and enough of them. */
export const isUntouched = ({ right, wrong }: Beside): boolean => right > 20 && wrong.length === 0
