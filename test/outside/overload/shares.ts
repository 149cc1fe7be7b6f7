/**
 * The calls of one address may not take the share of others. Endless calls of some addresses run
 * beside the quotes of another.
 */
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from '../../kit/checks.ts'
import { increment, post, type Reply } from './beside.ts'
import { POWERS } from './contracts.ts'
import { type OverloadedNode, startOverloaded } from './overloaded-node.ts'

/** The calls a second of each address. */
const RATE = 20
/** The node learns the cost of the calls in this time. */
const LEARNED_MS = 5_000
const QUOTES = '127.0.0.2'
/** The node learns which calls are long by running them, and a call may last until its deadline. */
const AIM = 3

type Attack = {
  readonly name: string
  readonly from: readonly string[]
  readonly request: (number: number) => { readonly call: object; readonly overrides?: object }
}
const address = (number: number) => `0x${(0xe000_0000 + number).toString(16).padStart(40, '0')}`
const selector = (number: number) => `0x${number.toString(16).padStart(8, '0')}`
const attacks: readonly Attack[] = [
  {
    name: 'endless calls',
    from: ['127.0.0.3'],
    request: (number) => ({ call: { to: POWERS.address, data: selector(number) } }),
  },
  {
    // Each call takes 14 ms.
    name: 'calls with little gas',
    from: ['127.0.0.3'],
    request: (number) => ({
      call: { to: POWERS.address, data: selector(number), gas: '0x28000' },
    }),
  },
  {
    name: 'endless calls of three addresses, each with its own code',
    from: ['127.0.0.3', '127.0.0.4', '127.0.0.5'],
    request: (number) => ({
      call: { to: address(number), data: selector(number) },
      overrides: { [address(number)]: { code: POWERS.code } },
    }),
  },
]

type Seen = { readonly ms: number; readonly fault: string | undefined }

/**
 * Runs each attack for `seconds`, of which the first five do not count. The node has its default
 * limits for calls.
 */
export async function overloadByShares(
  check: Check,
  options: { readonly seconds: number; readonly flags: readonly string[] },
): Promise<void> {
  const node = await startOverloaded([...options.flags, '--rate-limit', '100'])
  // The first quotes compile the code of the methods, and teach the node the cost of quotes.
  await quote(node, 3)
  const alone = summary(await quote(node, options.seconds - LEARNED_MS / 1_000))
  for (const attack of attacks) {
    const running = startAttack(node, attack)
    await quote(node, LEARNED_MS / 1_000)
    const seen = await quote(node, options.seconds - LEARNED_MS / 1_000)
    const made = await running.stop()
    const beside = summary(seen)
    const text = `p50 ${beside.p50} ms (${alone.p50}), p99 ${beside.p99} ms (${alone.p99}): ${(beside.p99 / alone.p99).toFixed(1)} times (aim: ${AIM})`
    const wrong = seen.filter(({ fault }) => fault !== undefined)
    check(
      `quotes beside ${attack.name}: none fails`,
      wrong.length === 0 && seen.length > 0 && made > 0,
      `${seen.length} quotes, ${made} calls; ${text}${wrong[0] === undefined ? '' : `; ${wrong.length} wrong: ${wrong[0].fault}`}`,
    )
  }
  check('the node ends with 0', (await node.stop()) === 0)
}

/** Sends quotes at their rate without waiting for responses. */
async function quote(node: OverloadedNode, seconds: number): Promise<readonly Seen[]> {
  const agent = new Agent({ keepAlive: true })
  const requested: Promise<Seen>[] = []
  await atRate(seconds * 1_000, (number) => requested.push(one(number)))
  const seen = await Promise.all(requested)
  agent.destroy()
  return seen

  async function one(number: number): Promise<Seen> {
    const startedAt = performance.now()
    const wanted = `0x${(number + 1).toString(16).padStart(64, '0')}`
    const path = number % 2 === 0 ? '/' : '/flashblocks'
    const reply: Reply = await post(`${node.url}${path}`, increment(number), {
      agent,
      localAddress: QUOTES,
    }).catch((error: Error) => ({ error: { code: 0, message: error.message } }))
    const ms = performance.now() - startedAt
    return { ms, fault: reply.result === wanted ? undefined : JSON.stringify(reply) }
  }
}

function startAttack(
  { url }: OverloadedNode,
  { from, request }: Attack,
): { stop(): Promise<number> } {
  const agent = new Agent({ keepAlive: true })
  const end = new AbortController()
  const requested: Promise<unknown>[] = []
  let number = 0
  const running = from.map((localAddress) =>
    atRate(
      Number.POSITIVE_INFINITY,
      () => {
        const { call, overrides } = request(number++)
        const params = [call, 'latest', ...(overrides === undefined ? [] : [overrides])]
        const openRequest = post(`${url}/`, { method: 'eth_call', params }, { agent, localAddress })
        requested.push(openRequest.catch(() => undefined))
      },
      end.signal,
    ),
  )
  return {
    async stop() {
      end.abort()
      await Promise.all(running)
      // Waiting calls end with their connection.
      agent.destroy()
      await Promise.all(requested)
      return requested.length
    },
  }
}

async function atRate(
  forMs: number,
  act: (number: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  const startedAt = performance.now()
  for (let number = 0; signal?.aborted !== true; number++) {
    const due = startedAt + (number * 1_000) / RATE
    if (due >= startedAt + forMs) break
    await sleep(Math.max(0, due - performance.now()))
    act(number + Math.floor(startedAt))
  }
}

function summary(seen: readonly Seen[]): { readonly p50: number; readonly p99: number } {
  const times = seen.map(({ ms }) => ms).toSorted((a, b) => a - b)
  const at = (part: number) => Math.round(times[Math.floor(times.length * part)]! * 10) / 10
  return { p50: at(0.5), p99: at(0.99) }
}
