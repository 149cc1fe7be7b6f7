/**
 * Requests per second and per CPU-second of the server, flashnode and a peer in one run: A B A B, medians of the rounds. The peer is
 * anvil, or with --against another checkout of flashnode.
 * Usage: npm run bench -- [--rounds 3] [--seconds 5] [--connections 32] [--only TEXT] [--against DIRECTORY]
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import autocannon from 'autocannon'
import { encodeAbiParameters, keccak256, pad, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { installAnvil, rpc, type Server, startAnvil, startFlashnode, TOKEN } from './servers.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '32' },
    only: { type: 'string', default: '' },
    against: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const seconds = Number(values.seconds)
const connections = Number(values.connections)
const HOLDERS = 1_000

const holder = (index: number) => pad(toHex(0x10_0000 + index), { size: 20 })
const slotOf = (address: `0x${string}`) =>
  keccak256(encodeAbiParameters([{ type: 'address' }, { type: 'uint256' }], [address, 0n]))
const range = (count: number) => Array.from({ length: count }, (_, index) => index)
const slots = new Map(
  range(HOLDERS).map((index) => [slotOf(holder(index)), pad(toHex(index + 1), { size: 32 })]),
)

const body = (method: string, params: readonly unknown[], id = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})
const balanceOf = (index: number, id = 1) => {
  const data = `0x70a08231${holder(index % HOLDERS)
    .slice(2)
    .padStart(64, '0')}`
  return body('eth_call', [{ to: TOKEN, data }, 'latest'], id)
}
const batch = (number: number) =>
  range(100).map((id) =>
    id % 4 === 3 ? balanceOf(number * 100 + id, id) : body('eth_blockNumber', [], id),
  )

type Workload = {
  readonly name: string
  /** Each body is sent once, in order, by one connection. */
  readonly isOnce?: true
  bodies(server: Server): readonly unknown[] | Promise<readonly unknown[]>
}
const workloads: readonly Workload[] = [
  { name: 'eth_blockNumber', bodies: () => [body('eth_blockNumber', [])] },
  { name: 'eth_getBalance', bodies: () => [body('eth_getBalance', [holder(1), 'latest'])] },
  { name: 'eth_call balanceOf, same holder', bodies: () => [balanceOf(7)] },
  {
    name: 'eth_call balanceOf, random holder',
    bodies: () => range(5 * HOLDERS).map(() => balanceOf(Math.floor(Math.random() * HOLDERS))),
  },
  { name: 'batch of 100 (75 blockNumber, 25 balanceOf)', bodies: () => range(50).map(batch) },
  { name: 'eth_sendRawTransaction', isOnce: true, bodies: signed },
]

/** Transfers of two accounts with rising nonces. */
async function signed(server: Server): Promise<readonly unknown[]> {
  const keys = [
    '0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6',
    '0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a',
  ] as const
  const all: unknown[] = []
  for (const account of keys.map((key) => privateKeyToAccount(key))) {
    const first = Number(
      await rpc(server.url, 'eth_getTransactionCount', [account.address, 'pending']),
    )
    for (let nonce = first; nonce < first + 500; nonce++) {
      const raw = await account.signTransaction({
        chainId: 196,
        type: 'eip1559',
        nonce,
        gas: 21_000n,
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 1n,
        to: holder(nonce),
        value: 1n,
      })
      all.push(body('eth_sendRawTransaction', [raw]))
    }
  }
  return all
}

type Sample = {
  readonly rate: number
  readonly perCpu: number
  readonly p50: number
  readonly p99: number
  readonly errors: number
}

async function measure(server: Server, workload: Workload): Promise<Sample> {
  const bodies = await workload.bodies(server)
  const cpu = server.cpuSeconds()
  const started = performance.now()
  const result = await autocannon({
    url: server.url,
    ...(workload.isOnce
      ? { connections: 1, amount: bodies.length }
      : { connections, duration: seconds }),
    requests: bodies.map((each) => ({
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(each),
    })),
  })
  const elapsed = (performance.now() - started) / 1000
  const done = result['2xx']
  return {
    rate: done / elapsed,
    perCpu: done / (server.cpuSeconds() - cpu),
    p50: result.latency.p50,
    p99: result.latency.p99,
    errors: result.non2xx + result.errors,
  }
}

async function compare(workload: Workload): Promise<string> {
  // Fresh servers for each workload: neither carries the blocks of the one before.
  const servers = [await startFlashnode(slots), await startPeer()] as const
  if (!workload.isOnce) for (const server of servers) await measure(server, workload)
  const samples: [Sample[], Sample[]] = [[], []]
  for (const _ of range(rounds))
    for (const which of [0, 1] as const)
      samples[which].push(await measure(servers[which], workload))
  for (const server of servers) await server.stop()
  const of = (which: 0 | 1, key: keyof Sample) =>
    samples[which].map((sample) => sample[key]).toSorted((a, b) => a - b)[rounds >> 1]!
  const pair = (key: keyof Sample) =>
    `${whole(of(0, key))} | ${whole(of(1, key))} | ${(of(0, key) / of(1, key)).toFixed(2)}`
  const errors = samples.flat().reduce((sum, sample) => sum + sample.errors, 0)
  const latency = ([0, 1] as const).map((which) => `${of(which, 'p50')} / ${of(which, 'p99')}`)
  const name = errors > 0 ? `${workload.name} (${errors} errors)` : workload.name
  return `| ${name} | ${pair('rate')} | ${pair('perCpu')} | ${latency.join(' | ')} |`
}
const startPeer = () =>
  values.against === undefined ? startAnvil(slots) : startFlashnode(slots, values.against)
const peer = values.against === undefined ? 'anvil' : 'the other'
const whole = (n: number) => Math.round(n).toLocaleString('en')

if (values.against === undefined) installAnvil()
console.log(
  `${cpus().length} cores, Node ${process.version}, ${rounds} rounds of ${seconds} s, ${connections} connections (eth_sendRawTransaction: 1)\n`,
)
console.log(
  `| workload | flashnode /s | ${peer} /s | ratio | flashnode /CPU-s | ${peer} /CPU-s | ratio | flashnode p50 / p99 ms | ${peer} p50 / p99 ms |\n|---|---|---|---|---|---|---|---|---|`,
)
for (const workload of workloads)
  if (workload.name.includes(values.only)) console.log(await compare(workload))
