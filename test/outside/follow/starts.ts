/** Lazy state starts from nothing. These sections check its fetches, and when it resyncs. */

import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { HANGS_MS } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { balanceOf } from '../soak/token.ts'
import {
  headOf,
  type Leader,
  type Metrics,
  readiness,
  startFollower,
  temporary,
  until,
  withMetrics,
} from './nodes.ts'
import type { Around, Section } from './section.ts'
import { startProxy, type UpstreamFault, type Wire } from './wires.ts'

const TRANSFERS = 200
/**
 * Each block writes one entry in the rings of parents (EIP-2935), beacon roots and their times
 * (EIP-4788).
 */
const SYSTEM_SLOTS = 3

/** Starts a separate chain on which nothing else happens. */
async function quietLeader(): Promise<Leader> {
  const datadir = temporary('quiet')
  const node = await startNode(['--datadir', datadir, '--rate-limit', 'off', '--pool-threads', '2'])
  const world = { token: '0x' as Hex, senders: [], holders: [], contracts: [], hashes: [] }
  const load = { world, sent: {}, stop: async () => {} }
  return { node, genesis: `${datadir}/genesis.json`, load }
}

/** Checks that transfers between known accounts, sent to the follower, cost no fetch. */
async function knownAccounts({ check }: Around): Promise<void> {
  const leader = await quietLeader()
  const upstream = await startProxy({ target: `${leader.node.url}/` })
  const { flags, metric } = await withMetrics()
  const follower = await startFollower(leader, {
    datadir: temporary('known'),
    upstreams: [upstream.url],
    feeds: [`${leader.node.url.replace('http', 'ws')}/feed`],
    more: ['--state', 'lazy', ...flags],
  })
  const fetched = () => metric(/events_total.*state_fetched/)
  try {
    const accounts = KEYS.map((key) => ({ account: privateKeyToAccount(key), nonce: 0 }))
    const transfer = async (from: number) => {
      const { account, nonce } = accounts[from]!
      const raw = await account.signTransaction({
        chainId: 196,
        type: 'eip1559',
        gas: 21_000n,
        nonce,
        value: 1n,
        maxFeePerGas: 10n ** 10n,
        maxPriorityFeePerGas: 1_000_000n,
        to: accounts[(from + 1) % accounts.length]!.account.address,
      })
      accounts[from]!.nonce++
      return (await call(`${follower.url}/flashblocks`, 'eth_sendRawTransaction', [raw])) as Hex
    }
    const included = (hash: Hex) =>
      until(
        async () =>
          (await call(`${follower.url}/flashblocks`, 'eth_getTransactionReceipt', [hash])) !== null,
        HANGS_MS,
        20,
      )
    const first = await Promise.all(accounts.map((_, from) => transfer(from)))
    const areIn = await Promise.all(first.map(included))
    check('lazy: transfers sent to the follower are included', areIn.every(Boolean))
    // The accounts that every block touches are known after two blocks.
    const head = await headOf(follower.url)
    await until(async () => (await headOf(follower.url)) >= head + 2, HANGS_MS)
    const before = await fetched()
    const from = await headOf(follower.url)
    let last: Hex = '0x'
    for (let sent = 0; sent < TRANSFERS; sent++) last = await transfer(sent % accounts.length)
    const isIn = await included(last)
    const after = await fetched()
    // One more block may be pending, and one was in progress when the first number was read.
    const blocks = (await headOf(follower.url)) - from + 2
    check(
      `lazy: ${TRANSFERS} transfers between known accounts fetch only each block's system slots`,
      isIn && before > 0 && after - before <= SYSTEM_SLOTS * blocks,
      `${after - before} keys in ${blocks} blocks, ${before} before`,
    )
    check('lazy: the follower ends with 0', (await follower.stop()) === 0)
  } catch (error) {
    console.log(follower.output().slice(-3_000))
    throw error
  } finally {
    await follower.stop('SIGKILL')
    await upstream.stop()
    await leader.node.stop()
  }
}

const DEPTH = 20

const hex = (number: number) => `0x${number.toString(16)}`

type Retained = { readonly number: number; readonly block: unknown }

/**
 * A follower misses more blocks than its upstream has state for, first while it runs, then while it
 * is stopped.
 */
async function leftLagging(around: Around): Promise<void> {
  const { leader, check } = around
  const upstream = await startProxy({ target: `${leader.node.url}/`, stateBlocks: DEPTH })
  const metrics = await withMetrics()
  const flags = {
    datadir: temporary('left'),
    upstreams: [upstream.url],
    feeds: [`${leader.node.url.replace('http', 'ws')}/feed`],
    more: ['--state', 'lazy', ...metrics.flags],
  }
  let follower = await startFollower(leader, flags)
  try {
    const retained = await leftWhileRunning(around, { follower, upstream, metrics })
    check('lazy: the follower ends with 0 when it is stopped', (await follower.stop()) === 0)
    const stopped = await headOf(leader.node.url)
    await until(async () => (await headOf(leader.node.url)) >= stopped + DEPTH + 5, HANGS_MS)
    follower = await startFollower(leader, flags)
    check(
      "lazy: after a stop longer than the upstream's history, the follower resyncs and logs it",
      follower.head > stopped && /is resynced/.test(follower.output()),
      `head was ${stopped}, is ${follower.head}`,
    )
    const same = await blockOf(follower.url, retained.number)
    check(
      'lazy: blocks from before the resync are readable',
      JSON.stringify(same) === JSON.stringify(retained.block) && same !== null,
    )
    check('lazy: the follower ends with 0 after the resync', (await follower.stop()) === 0)
  } catch (error) {
    console.log(follower.output().slice(-3_000))
    throw error
  } finally {
    await follower.stop('SIGKILL')
    await upstream.stop()
  }
}
const blockOf = (url: string, number: number) =>
  call(`${url}/`, 'eth_getBlockByNumber', [hex(number), true])

/** Checks that the follower resyncs without a restart. Returns a block from before. */
async function leftWhileRunning(
  { leader, check }: Around,
  {
    follower,
    upstream,
    metrics: { metric },
  }: {
    readonly follower: RunningNode
    readonly upstream: Wire<UpstreamFault>
    readonly metrics: Metrics
  },
): Promise<Retained> {
  const heads = await newHeads(follower.url)
  const startHead = follower.head
  await until(async () => (await headOf(follower.url)) >= startHead + 3, HANGS_MS)
  const retained = { number: startHead + 2, block: await blockOf(follower.url, startHead + 2) }
  await upstream.fault('cut')
  const stopped = await headOf(leader.node.url)
  await until(async () => (await headOf(leader.node.url)) >= stopped + DEPTH + 6, HANGS_MS)
  const { code } = await readiness(follower.url)
  await upstream.fault('none')
  const isThere = await until(
    async () => (await headOf(follower.url)) >= (await headOf(leader.node.url)) - 2,
    HANGS_MS,
  )
  check(
    "lazy: after a lag longer than the upstream's history, the follower resyncs and logs it",
    isThere && code === 503 && /the lazy state is resynced: at block/.test(follower.output()),
    `head was ${stopped}, is ${await headOf(follower.url)}, ${code} meanwhile`,
  )
  const counted = () => metric(/begun_anew/)
  const isCounted = await until(async () => (await counted()) === 1, HANGS_MS)
  check('lazy: the metrics count the resync', isCounted, String(await counted()))
  const same = await blockOf(follower.url, retained.number)
  check(
    'lazy: blocks from before the resync stay readable',
    JSON.stringify(same) === JSON.stringify(retained.block) && same !== null,
  )
  const before = heads.numbers.length
  await until(async () => heads.numbers.length >= before + 2, HANGS_MS)
  const isOrdered = heads.numbers.every((number, at) => at === 0 || number > heads.numbers[at - 1]!)
  const newest = heads.numbers.at(-1) ?? 0
  check(
    'lazy: a subscription gets the heads before and after the resync once, in order',
    isOrdered && heads.numbers[0]! <= stopped && newest > stopped + DEPTH,
    heads.numbers.join(' '),
  )
  heads.close()
  await sameResponses(leader, follower.url, check)
  const ready = await until(
    async () => (await readiness(follower.url)).status === 'ready',
    HANGS_MS,
  )
  check(
    'lazy: the follower is ready again after the resync',
    ready,
    JSON.stringify(await readiness(follower.url)),
  )
  return retained
}

/** Checks that a feed thread that fails now and then is replaced. */
async function feedThread({ leader, check }: Around): Promise<void> {
  const { flags, metric } = await withMetrics()
  const node = await startNode(
    [
      ...['--chain', leader.genesis, '--datadir', temporary('feed-thread'), '--state', 'whole'],
      ...['--upstream', `${leader.node.url}/`, '--pool-threads', '2'],
      ...['--feed', `${leader.node.url.replace('http', 'ws')}/feed`],
      ...flags,
    ],
    'follow',
    [
      {
        file: 'workers/feed-client/feed.ts',
        find: '      frameAt = now()\n',
        replace:
          "      if (Math.random() < 0.2) throw new Error('as the test wants it')\n      frameAt = now()\n",
      },
    ],
  )
  try {
    const failed = () => metric(/mishaps.*feed_failed/)
    const isFailed = await until(async () => (await failed()) >= 2, HANGS_MS)
    check('the metrics count a failed feed thread', isFailed, String(await failed()))
    const frames = () => metric(/feed_total.*"frames"/)
    const before = await frames()
    const goesOn = await until(async () => (await frames()) > before, HANGS_MS)
    check(
      'a new feed thread replaces the failed one, and frames arrive again',
      goesOn,
      `${before}, ${await frames()}`,
    )
    check('a feed thread: the node ends with 0', (await node.stop()) === 0)
  } finally {
    await node.stop('SIGKILL')
  }
}

const LAG_BLOCKS = 25

/** Checks that a node with a head responds while it is behind, and reports its lag. */
async function catchingUp({ leader, check }: Around): Promise<void> {
  await until(async () => (await headOf(leader.node.url)) >= LAG_BLOCKS, HANGS_MS)
  const upstream = await startProxy({ target: `${leader.node.url}/`, delayMs: 250 })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const starting = startFollower(leader, {
    datadir: temporary('catching-up'),
    upstreams: [upstream.url],
    feeds: [],
    more: [
      ...['--state', 'whole', '--port', String(port)],
      ...['--catch-up-range', '1', '--catch-up-ranges', '1'],
    ],
  })
  // The result of the start is checked below.
  starting.catch(() => {})
  try {
    type Syncing = Readonly<Record<'startingBlock' | 'currentBlock' | 'highestBlock', string>>
    const syncing = async () => (await call(`${url}/`, 'eth_syncing')) as Syncing | false
    let reported: Syncing | false = false
    const isReported = await until(async () => {
      reported = await syncing().catch(() => false)
      return reported !== false
    }, HANGS_MS)
    const [{ code, reasons }, head] = await Promise.all([readiness(url), headOf(url)])
    const [ours, theirs] = await Promise.all(
      [url, leader.node.url].map((at) => call(`${at}/`, 'eth_getBlockByNumber', [hex(head), true])),
    )
    const { startingBlock, currentBlock, highestBlock } = reported || {
      startingBlock: '',
      currentBlock: '',
      highestBlock: '',
    }
    check(
      'catching up: eth_syncing reports the current and the highest block',
      isReported &&
        Number(startingBlock) <= Number(currentBlock) &&
        Number(currentBlock) < Number(highestBlock),
      JSON.stringify(reported),
    )
    check('catching up: /readyz returns 503', code === 503, `${code} ${reasons.join('; ')}`)
    check(
      'catching up: the follower answers from its own head',
      head < Number(highestBlock) && JSON.stringify(ours) === JSON.stringify(theirs),
      `head ${head}`,
    )
    const node = await starting
    const after = await readiness(url)
    check(
      'catching up: at the end the follower is ready, and eth_syncing is false',
      node.head >= LAG_BLOCKS - 8 && after.code === 200 && (await syncing()) === false,
      `${after.code} ${after.reasons.join('; ')}`,
    )
    check('catching up: the follower ends with 0', (await node.stop()) === 0)
  } finally {
    await starting.then(
      (node) => node.stop('SIGKILL'),
      (error: Error) => console.log(error.message.slice(-3_000)),
    )
    await upstream.stop()
  }
}

/** Compares balances of a token whose state the follower no longer has. */
async function sameResponses(leader: Leader, url: string, check: Around['check']): Promise<void> {
  const { token, holders } = leader.load.world
  const number = await call(`${url}/`, 'eth_blockNumber')
  const both = holders.slice(0, 20).map((holder) => {
    const question = [{ to: token, data: balanceOf(holder) }, number]
    return Promise.all([url, leader.node.url].map((at) => call(`${at}/`, 'eth_call', question)))
  })
  const responses = await Promise.all(both)
  const wrong = responses.filter(([ours, theirs]) => ours !== theirs)
  check(
    'lazy: after the resync the follower fetches the right state',
    wrong.length === 0 && responses.length > 0,
    JSON.stringify(wrong),
  )
}

/** Subscribes to new heads and records their numbers. */
async function newHeads(url: string) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/`)
  const numbers: number[] = []
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve)
    socket.addEventListener('error', reject)
  })
  socket.addEventListener('message', ({ data }) => {
    const { params } = JSON.parse(String(data)) as {
      params?: { result: { number: string } }
    }
    if (params !== undefined) numbers.push(Number(params.result.number))
  })
  const subscribe = { jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads'] }
  socket.send(JSON.stringify(subscribe))
  return { numbers, close: () => socket.close() }
}

export const STARTS: Readonly<Record<string, Section>> = {
  'known-accounts': knownAccounts,
  left: leftLagging,
  'catching-up': catchingUp,
  'feed-thread': feedThread,
}
