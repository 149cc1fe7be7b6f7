/**
 * Replicas share sent transactions over Redis, so that a client's transaction is known at each of
 * them.
 */
import { once } from 'node:events'
import { privateKeyToAccount } from 'viem/accounts'
import { HANGS_MS } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { metricsUrl, readMetric } from '../../kit/metrics.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { startRedis } from '../../kit/redis.ts'
import { startLeader, temporary, until } from '../follow/nodes.ts'
import { openWebSocket } from './client.ts'
import type { Checks } from './section.ts'

const SENDS = 10
/** The flashblocks of a slow machine come later than the default allows. */
const HOLD_MS = '5000'
const sender = privateKeyToAccount(KEYS[4])

type Replica = { readonly node: RunningNode; readonly admin: string }

export async function together({ check, skip }: Checks): Promise<void> {
  const port = await freePort()
  let redis: Awaited<ReturnType<typeof startRedis>>
  try {
    redis = await startRedis(port)
  } catch (error) {
    skip('transactions that replicas tell each other', (error as Error).message)
    return
  }
  const { node: leader, genesis, load } = await startLeader(() => 0.5, 2)
  const start = async (state: string, more: readonly string[] = []): Promise<Replica> => {
    const admin = await freePort()
    const flags = [
      ...['--chain', genesis, '--datadir', temporary('told'), '--state', state],
      ...['--upstream', `${leader.url}/`, '--feed', `${leader.url.replace('http', 'ws')}/feed`],
      ...['--pool-threads', '2', '--rate-limit', 'off', '--admin-port', String(admin)],
      ...['--share-transactions', `redis://127.0.0.1:${port}`, '--receipt-hold', HOLD_MS, ...more],
    ]
    return {
      node: await startNode(flags, 'follow'),
      admin: metricsUrl(admin),
    }
  }
  const [taking, full, lazy] = [await start('whole'), await start('whole'), await start('lazy')]
  const world: World = { check, leader, taking, others: [full, lazy], nonce: 0 }
  await knownElsewhere(world)
  await checkReceiptHold(world)
  redis.kill('SIGKILL')
  await disconnected(world)
  redis = await startRedis(port)
  await back(world)
  const lagFlags = ['--flashblock-lag', '2', '--cadence-ms', '10000']
  await checkSharedPositions(check, [
    await start('whole', lagFlags),
    await start('whole', lagFlags),
  ])
  await load.stop()
  for (const { node } of [taking, full, lazy]) await node.stop()
  await leader.stop()
  redis.kill()
}

type World = {
  readonly check: Checks['check']
  readonly leader: RunningNode
  readonly taking: Replica
  readonly others: readonly [Replica, Replica]
  nonce: number
}

async function send(world: World): Promise<string> {
  const raw = await sender.signTransaction({
    nonce: world.nonce,
    gas: 21_000n,
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 1n,
    to: sender.address,
    value: 1n,
    chainId: 196,
    type: 'eip1559',
  })
  world.nonce++
  return (await call(`${world.taking.node.url}/`, 'eth_sendRawTransaction', [raw])) as string
}
const nonceAt = async ({ node }: Replica) =>
  Number(
    await call(`${node.url}/flashblocks`, 'eth_getTransactionCount', [sender.address, 'pending']),
  )
const metric = ({ admin }: Replica, what: string): Promise<number> =>
  readMetric(admin, `flashnode_transaction_pool{what="${what}"}`)

/** Checks that replicas know a transaction from each other, while no flashblock comes. */
async function knownElsewhere(world: World): Promise<void> {
  const { check, leader, others } = world
  const socket = await openWebSocket(`${others[0].node.url}/flashblocks`, '127.0.0.1')
  socket.send(
    '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newPendingTransactions"]}',
  )
  await once(socket, 'message')
  const received: string[] = []
  socket.on('message', (data) => received.push(JSON.parse(String(data)).params?.result))
  await call(`${leader.url}/`, 'dev_pause')
  const hash = await send(world)
  for (const [name, replica] of [
    ['full state', others[0]],
    ['fetched state', others[1]],
  ] as const) {
    const isCounted = await until(async () => (await nonceAt(replica)) === world.nonce, HANGS_MS)
    check(`${name}: a nonce counts the transaction that another replica accepted`, isCounted)
    const found = (await call(`${replica.node.url}/`, 'eth_getTransactionByHash', [hash])) as {
      blockNumber: unknown
    } | null
    check(
      `${name}: the transaction is pending at this replica too`,
      found !== null && found.blockNumber === null,
    )
  }
  check(
    'subscribers of the other replicas receive its hash',
    await until(async () => received.includes(hash), HANGS_MS),
  )
  socket.terminate()
  await call(`${leader.url}/`, 'dev_resume')
}

async function checkReceiptHold(world: World): Promise<void> {
  const { check, others } = world
  let seen = 0
  for (let sent = 0; sent < SENDS; sent++) {
    const hash = await send(world)
    const [{ node }] = others
    const isKnown = async () => {
      const said = await call(`${node.url}/`, 'base_transactionStatus', [hash])
      return (said as { readonly status: string }).status === 'Known'
    }
    if (!(await until(isKnown, HANGS_MS))) continue
    if ((await call(`${node.url}/flashblocks`, 'eth_getTransactionReceipt', [hash])) !== null)
      seen++
  }
  check(
    'another replica holds a receipt request until the receipt exists',
    seen === SENDS,
    `${seen} of ${SENDS}`,
  )
}

async function disconnected(world: World): Promise<void> {
  const { check, taking, others } = world
  const before = await metric(taking, 'sharedUntold')
  const hash = await send(world)
  check('without Redis a replica accepts a transaction', /^0x[0-9a-f]{64}$/.test(hash))
  const isUnshared = await until(
    async () => (await metric(taking, 'sharedUntold')) > before,
    HANGS_MS,
  )
  check('the metrics count it as not shared', isUnshared)
  check(
    'the log reports that it was not shared',
    taking.node.output().includes('transactions_not_shared'),
  )
  const isThere = async () =>
    (await call(`${others[0].node.url}/flashblocks`, 'eth_getTransactionReceipt', [hash])) !== null
  check(
    'the other replicas have the transaction from its flashblock on',
    await until(isThere, HANGS_MS),
  )
}

async function back(world: World): Promise<void> {
  const { check, leader, taking, others } = world
  const before = await metric(taking, 'sharedTold')
  // A connection is tried once a second, and a transaction may come before.
  const isShared = async () => {
    await send(world)
    return (await metric(taking, 'sharedTold')) > before
  }
  check('after a restart of Redis transactions are shared again', await until(isShared, HANGS_MS))
  await call(`${leader.url}/`, 'dev_pause')
  await send(world)
  const isCounted = await until(async () => (await nonceAt(others[0])) === world.nonce, HANGS_MS)
  check('after a restart of Redis the other replicas receive them', isCounted)
  await call(`${leader.url}/`, 'dev_resume')
}

/**
 * Checks shared positions with a lag by count, so that time does not matter: a visible flashblock
 * has two after it.
 */
async function checkSharedPositions(check: Checks['check'], replicas: readonly [Replica, Replica]) {
  for (const [name, replica] of [
    ['one', replicas[0]],
    ['another', replicas[1]],
  ] as const) {
    const isReceived = async () => (await metric(replica, 'placesHeard')) > 0
    check(
      `${name} replica with a flashblock lag receives the positions of the others`,
      await until(isReceived, HANGS_MS),
    )
    const newest = async () => {
      const method = { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] }
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify(method)
      const url = `${replica.node.url}/flashblocks`
      return (await fetch(url, { method: 'POST', headers, body })).headers.get('x-flashblock')
    }
    const before = await newest()
    check(
      'the flashblocks of the replica with a lag go on',
      await until(async () => (await newest()) !== before, HANGS_MS),
    )
  }
  for (const { node } of replicas) await node.stop()
}
