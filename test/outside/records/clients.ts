/**
 * These are clients of a recorded node: stock clients at both endpoints and over WebSocket,
 * batches, invalid requests, and sends.
 */
import {
  type Account,
  createPublicClient,
  createWalletClient,
  type Hex,
  http,
  numberToHex,
  publicActions,
  webSocket,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { xLayer } from 'viem/chains'
import type { World } from '../follow/load.ts'
import { transferTo } from '../soak/token.ts'

export type Clients = {
  /** Counts the responses: results, and errors that were provoked. */
  readonly responses: number
  /** Receipts of own transactions, each awaited like stock clients do. */
  readonly receipts: number
  /** Resolves after all responses. */
  stop(): Promise<void>
}

type Question = readonly [method: string, params: readonly unknown[]]
type SendRequest = (question: Question) => Promise<void>
type Around = {
  readonly url: string
  readonly world: World
  readonly random: () => number
  readonly isStopped: () => boolean
  /** Counts a response. */
  readonly count: () => void
}

/** The pause between two requests of one client. */
const PACE_MS = 120
/** A batch has this many requests of the list. */
const BATCH = 5
const TAGS = ['latest', 'pending', 'safe', 'earliest'] as const

/**
 * Starts the clients.
 * @param key of an account that no other client uses
 */
export function startClients(
  url: string,
  { world, random, key }: Pick<Around, 'world' | 'random'> & { readonly key: Hex },
): Clients {
  let isStopped = false
  const counts = { responses: 0, receipts: 0 }
  const around: Around = {
    url,
    world,
    random,
    isStopped: () => isStopped,
    count: () => void counts.responses++,
  }
  const all = Promise.all([
    ...['/', '/flashblocks'].map((path) => requester(around, httpRequest(around, path))),
    ...['/', '/flashblocks'].map((path) => requester(around, batchRequest(around, path))),
    ...['/', '/flashblocks'].map((path) => overSocket(around, path)),
    fetching(around),
    sending(around, privateKeyToAccount(key), () => counts.receipts++),
  ])
  all.catch(() => {})
  return {
    get responses() {
      return counts.responses
    },
    get receipts() {
      return counts.receipts
    },
    async stop() {
      isStopped = true
      await all
    },
  }
}

/** Sends random requests one after the other. Errors count as responses. */
async function requester(around: Around, request: SendRequest): Promise<void> {
  const { random, count, isStopped } = around
  while (!isStopped()) {
    const list = questions(around)
    await request(list[Math.floor(random() * list.length)]!).catch(() => {})
    count()
    await pause(PACE_MS * random() * 2)
  }
}
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const options = { retryCount: 0, timeout: 60_000 }
function httpRequest({ url }: Around, path: string): SendRequest {
  const client = createPublicClient({ chain: xLayer, transport: http(`${url}${path}`, options) })
  return ([method, params]) => client.request({ method, params } as never)
}
/** Sends each request with its neighbours, which viem joins into one batch. */
function batchRequest(around: Around, path: string): SendRequest {
  const transport = http(`${around.url}${path}`, { ...options, batch: { wait: 5 } })
  const client = createPublicClient({ chain: xLayer, transport })
  const request = ([method, params]: Question) => client.request({ method, params } as never)
  return async (question) => {
    const list = questions(around)
    const more = Array.from(
      { length: BATCH },
      () => list[Math.floor(around.random() * list.length)]!,
    )
    await Promise.allSettled([question, ...more, FILTER].map(request))
  }
}
/** The filter's id is random, so the other requests of its batch are repeated without it. */
const FILTER: Question = ['eth_newBlockFilter', []]

async function overSocket(around: Around, path: string): Promise<void> {
  const transport = webSocket(`${around.url.replace('http', 'ws')}${path}`, options)
  const client = createPublicClient({ chain: xLayer, transport })
  const unwatch = client.watchBlockNumber({ onBlockNumber() {} })
  await requester(around, ([method, params]) => client.request({ method, params } as never))
  unwatch()
  const socket = await client.transport.getRpcClient()
  socket.close()
}

/**
 * Sends what stock clients do not send: a minimum flashblock for the view, invalid bodies,
 * notifications.
 */
async function fetching({ url, random, count, isStopped, world }: Around): Promise<void> {
  let flashblockId = ''
  const post = async (path: string, body: string) => {
    const headers = {
      'content-type': 'application/json',
      ...(flashblockId === '' ? {} : { 'X-Min-Flashblock': flashblockId }),
    }
    const response = await fetch(`${url}${path}`, { method: 'POST', headers, body })
    flashblockId = response.headers.get('x-flashblock') ?? flashblockId
    await response.text()
    count()
  }
  const request = (method: string, params: readonly unknown[], more: object = { id: 7 }) => ({
    jsonrpc: '2.0',
    method,
    params,
    ...more,
  })
  const balance = () => request('eth_getBalance', [of(world.senders, random), 'pending'])
  while (!isStopped()) {
    await post('/flashblocks', JSON.stringify(balance()))
    await post('/flashblocks', JSON.stringify([balance(), request('eth_blockNumber', [], {}), 7]))
    await post('/', '{"jsonrpc":"2.0","id":1,"method":')
    await post('/', JSON.stringify([]))
    await post('/', JSON.stringify(request('eth_blockNumber', [], { id: 'n'.repeat(40) })))
    await pause(PACE_MS * 10)
  }
}

/**
 * Sends transactions like an application does: the node holds the receipt request until the
 * flashblock.
 */
async function sending(
  { url, random, world, isStopped }: Around,
  account: Account,
  onReceipt: () => void,
): Promise<void> {
  const transport = http(`${url}/flashblocks`, options)
  const client = createWalletClient({ account, chain: xLayer, transport }).extend(publicActions)
  while (!isStopped()) {
    // A transaction that a reorg removes is not awaited.
    await client
      .sendTransaction({ to: of(world.holders, random), value: 1n, gas: 60_000n })
      .then((hash) => client.waitForTransactionReceipt({ hash, timeout: 5_000 }))
      .then(onReceipt, () => {})
    await pause(PACE_MS * 5)
  }
}

const of = <T>(list: readonly T[], random: () => number): T =>
  list[Math.floor(random() * list.length)]!

/** Lists the requests that are possible in this world now. */
function questions({ world, random }: Pick<Around, 'world' | 'random'>): readonly Question[] {
  const [tag, holder] = [of(TAGS, random), of(world.holders, random)]
  const hash = of(world.hashes, random)
  const call = { to: world.token, data: transferTo(holder, 0n), from: of(world.senders, random) }
  const traced = { tracer: 'callTracer' }
  return [
    ['eth_blockNumber', []],
    ['eth_chainId', []],
    ['eth_gasPrice', []],
    ['eth_feeHistory', ['0x4', 'latest', [25, 75]]],
    ['eth_getBlockByNumber', [tag, random() < 0.5]],
    ['eth_getBlockReceipts', ['pending']],
    ['eth_getBalance', [of(world.senders, random), tag]],
    ['eth_getBalance', [holder, 'pending']],
    ['eth_getTransactionCount', [of(world.senders, random), tag]],
    ['eth_getCode', [of(world.contracts, random) ?? world.token, tag]],
    ['eth_getStorageAt', [world.token, numberToHex(random() < 0.5 ? 0 : 7), 'pending']],
    ['eth_call', [call, 'pending']],
    ['eth_call', [call, 'latest']],
    ['eth_call', [{ ...call, data: '0xffffffff' }, 'pending']],
    ['eth_estimateGas', [call]],
    ['eth_createAccessList', [call, 'pending']],
    ['eth_getTransactionReceipt', [hash]],
    ['eth_getTransactionByHash', [hash]],
    ['eth_getLogs', [{ address: world.token, fromBlock: 'latest', toBlock: 'pending' }]],
    ['debug_traceCall', [call, 'latest', traced]],
    ['debug_traceTransaction', [hash, traced]],
    ['debug_traceBlockByNumber', ['latest', traced]],
    ['eth_simulateV1', [{ blockStateCalls: [{ calls: [call] }] }, 'pending']],
    ['eth_getProof', [holder, [], 'latest']],
    ['eth_getBalance', ['0x12', 'latest']],
    ['eth_getBlockByNumber', [numberToHex(1_000_000_000), false]],
    ['eth_noSuchMethod', [hash]],
    ['flashblocks_transactionStatus', [hash]],
    ['txpool_status', []],
    ['web3_clientVersion', []],
  ]
}
