/** Ordinary clients beside the trouble: steady calls whose answers are known. */
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { bodyOf, type From, post as send } from '../../kit/client.ts'
import { INCREMENT } from './contracts.ts'

export type Beside = {
  readonly right: number
  /** Told of a timeout: a machine with other work does that to some. */
  readonly late: number
  readonly wrong: readonly string[]
  /** Milliseconds that 99 of 100 calls took at most. */
  readonly p99: number
  readonly slowest: number
}
export type Clients = {
  /** Ends them; what they have seen. */
  stop(): Promise<Beside>
}

export type Reply = {
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

/** How many clients ask at the same time, each of them again so long after its answer. */
const CLIENTS = 4
const PAUSE_MS = 10

export function startClients(url: string, random: () => number): Clients {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const times: number[] = []
  const wrong: string[] = []
  let right = 0
  let late = 0
  let isOver = false

  async function ask(): Promise<void> {
    const path = random() < 0.5 ? '/' : '/flashblocks'
    const number = Math.floor(random() * 2 ** 32)
    const asked = random() < 0.75 ? increment(number) : { method: 'eth_getBalance', params: RICH }
    const wanted = asked.method === 'eth_call' ? word(number + 1) : BALANCE
    const startedAt = performance.now()
    const { result, error } = await post(`${url}${path}`, asked, { agent })
    times.push(performance.now() - startedAt)
    if (result === wanted) right++
    else if (error?.code === -32002) late++
    else if (wrong.length < 20)
      wrong.push(`${asked.method}: ${error === undefined ? result : JSON.stringify(error)}`)
  }
  const running = Array.from({ length: CLIENTS }, async () => {
    while (!isOver) {
      await ask().catch((error: Error) => {
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
/** A call of little gas whose answer is its number plus one. */
export const increment = (number: number) => ({
  method: 'eth_call',
  params: [{ to: INCREMENT.address, data: word(number), gas: '0x186a0' }, 'latest'],
})
/** The tenth account of the mnemonic: nobody here spends from it. */
const RICH = ['0xa0ee7a142d267c1f36714e4a8f75612f20a79720', 'latest']
const BALANCE = `0x${(10_000n * 10n ** 18n).toString(16)}`

/** One call over HTTP. @throws where the connection fails */
export const post = (
  url: string,
  { method, params }: { readonly method: string; readonly params: readonly unknown[] },
  from: From = {},
): Promise<Reply> => postBody(url, bodyOf(method, params), from) as Promise<Reply>

/** A body as it is; gives the decoded answer. @throws where the connection fails */
export async function postBody(url: string, body: string, from: From = {}): Promise<unknown> {
  const { status, text } = await send(url, body, from)
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`HTTP ${status}: ${text.slice(0, 80)}`)
  }
}

/** One line of what the clients saw. */
export const besideText = ({ right, late, p99, slowest }: Beside): string =>
  `${right} right answers beside, ${late} timeouts, 99 of 100 within ${p99} ms, all within ${slowest} ms`
export const isUntouched = ({ right, late, wrong }: Beside): boolean =>
  right > 20 && late <= 1 + right * 0.05 && wrong.length === 0
