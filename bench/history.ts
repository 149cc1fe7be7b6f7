/**
 * Measures reads of older blocks: receipts, blocks, past balances and traces. flashnode and anvil
 * take turns in one run, A B A B; results are medians of the rounds.
 * Both get the same signed transactions, fifty a second; each writes a slot and a log.
 * Usage: npm run bench:history -- [--rounds 3] [--seconds 4] [--connections 4] [--blocks 40]
 * [--only TEXT] [--no-anvil]
 */
import { writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { DEV_ACCOUNTS } from '../engine/chainspec/dev-accounts.ts'
import { bytesToHex, hexToBytes, quantity } from '../engine/primitives/hex.ts'
import { signTransaction } from '../engine/primitives/transaction-codec.ts'
import { columnsOf, compare, type Request } from './compare.ts'
import { COMMON, LOGGER_CODE, word } from './logs-chain.ts'
import { installAnvil, rpc, type Server, startBareAnvil, startCommand } from './servers.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '4' },
    blocks: { type: 'string', default: '40' },
    only: { type: 'string', default: '' },
    'no-anvil': { type: 'boolean', default: false },
  },
})
const load = {
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
}
const BLOCKS = Number(values.blocks)
const IN_BLOCK = 50
/** Requests of one workload; they are too many for a cache to answer one twice in a second. */
const REQUESTS = 1_000
/** The read account differs from the sender, so its balance stays the same. */
const [SENDER, READ] = [DEV_ACCOUNTS[0]!, DEV_ACCOUNTS[1]!]

/** SSTORE(CALLDATALOAD(0), CALLDATALOAD(32)), then the log. */
const CODE = `0x60203560003555${LOGGER_CODE.slice(2)}`

const signed = (nonce: number) =>
  signTransaction(
    {
      type: 2,
      chainId: 196n,
      nonce: BigInt(nonce),
      gasLimit: 80_000n,
      value: 0n,
      maxFeePerGas: 5n * 10n ** 9n,
      maxPriorityFeePerGas: 10n ** 6n,
      accessList: [],
      to: hexToBytes(COMMON),
      input: hexToBytes(`0x${word(nonce).slice(2)}${word(nonce + 1).slice(2)}`),
    },
    hexToBytes(SENDER.privateKey),
  )

type Chain = { readonly first: number; readonly last: number; readonly hashes: readonly string[] }
type Workload = { readonly name: string; readonly request: (chain: Chain, at: number) => Request }
const blockOf = ({ first, last }: Chain, at: number) =>
  quantity(BigInt(first + ((at * 17) % (last - first + 1))))
const hashOf = ({ hashes }: Chain, at: number) => hashes[(at * 197) % hashes.length]!
const traced = (tracer: string) => (chain: Chain, at: number) => ({
  method: 'debug_traceTransaction',
  params: [hashOf(chain, at), { tracer }],
})
const workloads: readonly Workload[] = [
  {
    name: 'eth_getTransactionReceipt',
    request: (chain, at) => ({
      method: 'eth_getTransactionReceipt',
      params: [hashOf(chain, at)],
    }),
  },
  {
    name: 'eth_getBlockByNumber, full transactions',
    request: (chain, at) => ({
      method: 'eth_getBlockByNumber',
      params: [blockOf(chain, at), true],
    }),
  },
  {
    name: 'eth_getBlockReceipts',
    request: (chain, at) => ({ method: 'eth_getBlockReceipts', params: [blockOf(chain, at)] }),
  },
  {
    name: 'eth_getBalance of an old block',
    request: (chain, at) => ({
      method: 'eth_getBalance',
      params: [READ.address, blockOf(chain, at)],
    }),
  },
  { name: 'debug_traceTransaction, callTracer', request: traced('callTracer') },
  { name: 'debug_traceTransaction, prestateTracer', request: traced('prestateTracer') },
]

/** Sends the same transactions to all servers at the pace of the blocks. */
async function fill(servers: readonly Server[]): Promise<ReadonlyMap<Server, Chain>> {
  const first = new Map<Server, number>()
  for (const server of servers)
    first.set(server, Number(await rpc(server.url, 'eth_blockNumber', [])) + 2)
  const hashes: string[] = []
  for (let block = 0; block < BLOCKS; block++) {
    const transactions = Array.from({ length: IN_BLOCK }, (_, at) => signed(block * IN_BLOCK + at))
    hashes.push(...transactions.map(({ hash }) => bytesToHex(hash)))
    const calls = transactions.map(({ raw }, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'eth_sendRawTransaction',
      params: [bytesToHex(raw)],
    }))
    const body = JSON.stringify(calls)
    for (const { url, name } of servers) {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(url, { method: 'POST', headers, body })
      const responses = (await response.json()) as {
        readonly error?: { readonly message: string }
      }[]
      const refused = responses.find(({ error }) => error !== undefined)?.error
      if (refused !== undefined) throw new Error(`${name}: ${refused.message}`)
    }
    await sleep(1_000)
  }
  const chains = new Map<Server, Chain>()
  for (const server of servers) {
    while ((await rpc(server.url, 'eth_getTransactionReceipt', [hashes.at(-1)])) === null)
      await sleep(200)
    const last = Number(await rpc(server.url, 'eth_blockNumber', [])) - 2
    chains.set(server, { first: first.get(server)!, last, hashes })
  }
  return chains
}

if (!values['no-anvil']) installAnvil()
const alloc = join(tmpdir(), `flashnode-bench-${process.pid}.json`)
writeFileSync(alloc, JSON.stringify({ [COMMON]: { balance: '0x0', code: CODE } }))
const servers: Server[] = []
try {
  servers.push(await startCommand(['dev', '--ephemeral', '--genesis-alloc', alloc]))
  if (!values['no-anvil']) {
    const anvil = await startBareAnvil(['--block-time', '1'])
    servers.push(anvil)
    await rpc(anvil.url, 'anvil_setCode', [COMMON, CODE])
  }
  const chains = await fill(servers)
  console.log(
    `${cpus().length} cores, Node ${process.version}, ${load.rounds} rounds of ${load.seconds} s, ${load.connections} connections, blocks of ${IN_BLOCK}\n`,
  )
  const columns = columnsOf(servers)
  console.log(`| workload | ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length + 1)}`)
  for (const { name, request } of workloads) {
    if (!name.includes(values.only)) continue
    const requests = (server: Server) =>
      Array.from({ length: REQUESTS }, (_, at) => request(chains.get(server)!, at))
    for (const server of servers) {
      const { method, params } = request(chains.get(server)!, 1)
      if ((await rpc(server.url, method, params)) === null)
        throw new Error(`${server.name}: ${name} has no answer`)
    }
    const { fields, errors } = await compare(servers, requests, load)
    console.log(`| ${name}${errors > 0 ? ` (${errors} errors)` : ''} | ${fields.join(' | ')} |`)
  }
} finally {
  for (const server of servers) await server.stop()
}
