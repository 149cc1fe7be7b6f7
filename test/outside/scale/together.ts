/** Replicas that tell each other what was sent to them, over Redis: whichever a client asks, its transaction is known there. */
import { once } from 'node:events'
import { privateKeyToAccount } from 'viem/accounts'
import { HANGS_MS } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { startRedis } from '../../kit/redis.ts'
import { startLeader, temporary, until } from '../follow/nodes.ts'
import { openWebSocket } from './client.ts'
import type { Checks } from './section.ts'

const SENDS = 10
/** A slow machine's flashblocks come later than the default allows. */
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
      admin: `http://127.0.0.1:${admin}/metrics`,
    }
  }
  const [taking, whole, lazy] = [await start('whole'), await start('whole'), await start('lazy')]
  const world: World = { check, leader, taking, others: [whole, lazy], nonce: 0 }
  await knownElsewhere(world)
  await held(world)
  redis.kill('SIGKILL')
  await away(world)
  redis = await startRedis(port)
  await back(world)
  const behind = ['--behind', '2', '--cadence-ms', '10000']
  await places(check, [await start('whole', behind), await start('whole', behind)])
  await load.stop()
  for (const { node } of [taking, whole, lazy]) await node.stop()
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
    ...{ nonce: world.nonce, gas: 21_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1n },
    ...{ to: sender.address, value: 1n, chainId: 196, type: 'eip1559' },
  })
  world.nonce++
  return (await call(`${world.taking.node.url}/`, 'eth_sendRawTransaction', [raw])) as string
}
const nonceAt = async ({ node }: Replica) =>
  Number(
    await call(`${node.url}/flashblocks`, 'eth_getTransactionCount', [sender.address, 'pending']),
  )
const metric = async ({ admin }: Replica, what: string): Promise<number> => {
  const text = await (await fetch(admin)).text()
  const line = new RegExp(`^flashnode_transaction_pool\\{what="${what}"\\} (\\d+)$`, 'm')
  return Number(line.exec(text)?.[1])
}

/** No flashblock comes: what is known of it the replicas have told each other. */
async function knownElsewhere(world: World): Promise<void> {
  const { check, leader, others } = world
  const socket = await openWebSocket(`${others[0].node.url}/flashblocks`, '127.0.0.1')
  socket.send(
    '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newPendingTransactions"]}',
  )
  await once(socket, 'message')
  const heard: string[] = []
  socket.on('message', (data) => heard.push(JSON.parse(String(data)).params?.result))
  await call(`${leader.url}/`, 'dev_pause')
  const hash = await send(world)
  for (const [name, replica] of [
    ['whole state', others[0]],
    ['fetched state', others[1]],
  ] as const) {
    const isCounted = await until(async () => (await nonceAt(replica)) === world.nonce, HANGS_MS)
    check(`${name}: a nonce counts what another replica took`, isCounted)
    const found = (await call(`${replica.node.url}/`, 'eth_getTransactionByHash', [hash])) as {
      blockNumber: unknown
    } | null
    check(`${name}: it waits there too`, found !== null && found.blockNumber === null)
  }
  check('its subscribers hear of it', await until(async () => heard.includes(hash), HANGS_MS))
  socket.terminate()
  await call(`${leader.url}/`, 'dev_resume')
}

async function held(world: World): Promise<void> {
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
    'a receipt is held on a replica that did not take it',
    seen === SENDS,
    `${seen} of ${SENDS}`,
  )
}

async function away(world: World): Promise<void> {
  const { check, taking, others } = world
  const before = await metric(taking, 'sharedUntold')
  const hash = await send(world)
  check('without Redis a transaction is taken', /^0x[0-9a-f]{64}$/.test(hash))
  const isUntold = await until(
    async () => (await metric(taking, 'sharedUntold')) > before,
    HANGS_MS,
  )
  check('and counted as not told', isUntold)
  check('the log says it', taking.node.output().includes('transactions_not_shared'))
  const isThere = async () =>
    (await call(`${others[0].node.url}/flashblocks`, 'eth_getTransactionReceipt', [hash])) !== null
  check('the others have it with its flashblock', await until(isThere, HANGS_MS))
}

async function back(world: World): Promise<void> {
  const { check, leader, taking, others } = world
  const before = await metric(taking, 'sharedTold')
  // A connection is tried once a second; a transaction may come before.
  const isTold = async () => {
    await send(world)
    return (await metric(taking, 'sharedTold')) > before
  }
  check('with Redis again they are told', await until(isTold, HANGS_MS))
  await call(`${leader.url}/`, 'dev_pause')
  await send(world)
  const isCounted = await until(async () => (await nonceAt(others[0])) === world.nonce, HANGS_MS)
  check('and heard', isCounted)
  await call(`${leader.url}/`, 'dev_resume')
}

/** Time decides nothing: what is shown has two flashblocks after it. */
async function places(check: Checks['check'], replicas: readonly [Replica, Replica]) {
  for (const [name, replica] of [
    ['one', replicas[0]],
    ['another', replicas[1]],
  ] as const) {
    const isHeard = async () => (await metric(replica, 'placesHeard')) > 0
    check(`${name} that stays behind hears what the others have`, await until(isHeard, HANGS_MS))
    const place = async () => {
      const method = { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] }
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify(method)
      const url = `${replica.node.url}/flashblocks`
      return (await fetch(url, { method: 'POST', headers, body })).headers.get('x-flashblock')
    }
    const before = await place()
    check('and goes on', await until(async () => (await place()) !== before, HANGS_MS))
  }
  for (const { node } of replicas) await node.stop()
}
