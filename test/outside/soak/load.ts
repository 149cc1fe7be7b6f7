/** This load acts like many users at a fixed rate: transactions, and calls of every kind. */
import { Agent } from 'node:http'
import { getContractAddress, type Hex, numberToHex, pad, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { bodyOf, post } from '../../kit/client.ts'
import { KEYS } from '../../kit/node.ts'
import { balanceOf, slotOf, TOKEN_CREATION, transferTo } from './token.ts'

const TICK_MS = 20
/** The maximum number of open calls; further calls are counted and not sent. */
const MAX_OPEN = 400
const MAX_LAG_SECONDS = 0.3
const HOLDERS = 20_000
const RETAINED_HASHES = 500
/**
 * Each address may send 100 requests a second by default. A quarter of that is used, because a
 * machine stops now and then.
 */
const ADDRESSES = Array.from({ length: 10 }, (_, index) => `127.0.0.${2 + index}`)

export type LoadCounts = {
  readonly transactions: number
  readonly calls: number
  /** Calls that were due while too many were open. */
  readonly held: number
  readonly failures: number
  /** The first failures. */
  readonly examples: readonly string[]
  /** The milliseconds of the slowest call. */
  readonly slowestMs: number
}
type Sender = { readonly account: PrivateKeyAccount; nonce: number; isBusy: boolean }
type Call = readonly [path: '/' | '/flashblocks', method: string, ...params: unknown[]]

/**
 * Sends at `rates` a second. Ends its sockets and resolves once `stopped` is aborted and all
 * responses have come.
 */
export async function runLoad(options: {
  readonly url: string
  readonly rates: { readonly transactions: number; readonly calls: number }
  readonly random: () => number
  readonly stopped: AbortSignal
}): Promise<LoadCounts> {
  const { url, rates, random, stopped } = options
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const counts = { transactions: 0, calls: 0, held: 0, failures: 0, slowestMs: 0 }
  const examples: string[] = []
  const hashes: Hex[] = []
  const open = new Set<Promise<unknown>>()
  let turn = 0

  async function request([path, method, ...params]: Call): Promise<unknown> {
    const localAddress = ADDRESSES[turn++ % ADDRESSES.length]!
    const started = performance.now()
    try {
      const body = bodyOf(method, params, turn)
      const { text } = await post(`${url}${path}`, body, { agent, localAddress })
      const response = JSON.parse(text) as {
        result?: unknown
        error?: { code: number; message: string }
      }
      if (response.error === undefined) return response.result
      throw new Error(`${response.error.code} ${response.error.message}`)
    } catch (error) {
      counts.failures++
      if (examples.length < 10) examples.push(`${method} ${JSON.stringify(params)}: ${error}`)
      return undefined
    } finally {
      counts.slowestMs = Math.max(counts.slowestMs, performance.now() - started)
    }
  }
  const track = (work: Promise<unknown>) => {
    open.add(work)
    void work.finally(() => open.delete(work))
  }

  const senders: Sender[] = KEYS.map((key) => {
    return { account: privateKeyToAccount(key), nonce: 0, isBusy: false }
  })
  const holder = () => pad(toHex(0x10_0000 + Math.floor(random() * HOLDERS)), { size: 20 })
  const deployer = senders[0]!.account.address
  const token = getContractAddress({ from: deployer, nonce: 0n })

  async function send(sender: Sender, what: { to?: Hex; data?: Hex; value?: bigint; gas: bigint }) {
    sender.isBusy = true
    const raw = await sender.account.signTransaction({
      chainId: 196,
      type: 'eip1559',
      nonce: sender.nonce,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 1_000_000n,
      ...what,
    })
    const hash = (await request(['/flashblocks', 'eth_sendRawTransaction', raw])) as Hex | undefined
    sender.isBusy = false
    if (hash === undefined) return
    sender.nonce++
    hashes.push(hash)
    if (hashes.length > RETAINED_HASHES) hashes.shift()
  }
  const transaction = () =>
    random() < 0.7
      ? { to: token, data: transferTo(holder(), 1n), gas: 100_000n }
      : { to: holder(), value: 1n, gas: 21_000n }

  await send(senders[0]!, { data: TOKEN_CREATION, gas: 300_000n })
  const mix = callMix({ token, deployer, holder, random, hashes })
  const startedAt = performance.now()
  /** After a pause of this process, the due requests that exceed the request limit are skipped. */
  const skip = (elapsed: number) => {
    for (const what of ['transactions', 'calls'] as const) {
      const lag = Math.floor((elapsed - MAX_LAG_SECONDS) * rates[what]) - counts[what]
      if (lag <= 0) continue
      counts[what] += lag
      counts.held += lag
    }
  }
  while (!stopped.aborted) {
    const elapsed = (performance.now() - startedAt) / 1_000
    skip(elapsed)
    for (; counts.transactions < elapsed * rates.transactions; counts.transactions++) {
      const sender = senders.find(({ isBusy }) => !isBusy)
      if (sender === undefined) counts.held++
      else track(send(sender, transaction()))
    }
    for (; counts.calls < elapsed * rates.calls; counts.calls++)
      if (open.size >= MAX_OPEN) counts.held++
      else track(request(mix()))
    await new Promise((resolve) => setTimeout(resolve, TICK_MS))
  }
  await Promise.all(open)
  agent.destroy()
  return { ...counts, examples }
}

/** Makes one call after another, each kind as often as its weight says. */
function callMix(of: {
  readonly token: Hex
  readonly deployer: Hex
  readonly holder: () => Hex
  readonly random: () => number
  readonly hashes: readonly Hex[]
}): () => Call {
  const { token, deployer, holder, random, hashes } = of
  const fast = '/flashblocks'
  const balance = (path: Call[0], tag: string): Call => [
    ...([path, 'eth_call'] as const),
    { to: token, data: balanceOf(holder()) },
    tag,
  ]
  const recent = () => hashes[Math.floor(random() * hashes.length)] ?? pad('0x')
  const feePaying = () => ({ from: deployer, to: token, data: transferTo(holder(), 1n) })
  const kinds: readonly (readonly [weight: number, call: () => Call])[] = [
    [25, () => balance(fast, 'pending')],
    [10, () => balance('/', 'latest')],
    [12, () => [fast, 'eth_getBalance', holder(), 'pending']],
    [10, () => ['/', 'eth_blockNumber']],
    [10, () => [fast, 'eth_getTransactionReceipt', recent()]],
    [6, () => ['/', 'eth_getBlockByNumber', 'latest', random() < 0.5]],
    [5, () => [fast, 'eth_getTransactionCount', deployer, 'pending']],
    [4, () => ['/', 'eth_getTransactionByHash', recent()]],
    [4, () => ['/', 'eth_estimateGas', feePaying()]],
    [3, () => ['/', 'eth_chainId']],
    [3, () => [fast, 'eth_gasPrice']],
    [2, () => ['/', 'eth_feeHistory', numberToHex(10), 'latest', [50]]],
    [2, () => ['/', 'eth_getStorageAt', token, slotOf(holder()), 'latest']],
    [1, () => ['/', 'eth_getCode', token, 'latest']],
    [1, () => ['/', 'eth_getLogs', { fromBlock: 'latest', address: token }]],
    [1, () => ['/', 'eth_getProof', holder(), [], 'latest']],
    [1, () => [fast, 'debug_traceCall', feePaying(), 'latest', { tracer: 'callTracer' }]],
  ]
  const total = kinds.reduce((sum, [weight]) => sum + weight, 0)
  return () => {
    let at = random() * total
    for (const [weight, call] of kinds) {
      at -= weight
      if (at < 0) return call()
    }
    return kinds[0]![1]()
  }
}
