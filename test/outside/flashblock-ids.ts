/**
 * This check reads flashblocks by number and index, and views that are new enough. The nodes are a
 * development chain and a follower whose feed is late and cut.
 * Usage: npm run places [-- --reads N] [--seed S] [--log]
 */
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { type Reply, sendRequest } from '../kit/batch.ts'
import { checks, HANGS_MS, measurement } from '../kit/checks.ts'
import { call, type RunningNode } from '../kit/node.ts'
import { runOptions } from '../kit/run-options.ts'
import { parseFlashblockId } from './flashblock-ids/flashblock-id.ts'
import { createRecorder, type Reads, type Recorder } from './flashblock-ids/recorder.ts'
import {
  startBalancer,
  startLateFeed,
  type Walk,
  walk,
} from './flashblock-ids/through-one-address.ts'
import { startFollower, startLeader, temporary, until } from './follow/nodes.ts'
import { startRelay } from './follow/wires.ts'

const { random, own } = runOptions(
  'places',
  { full: 0, short: 0 },
  { reads: { type: 'string' }, log: { type: 'boolean' } },
)
const READS = Number(own['reads'] ?? 10_000)
/** The load has this many transactions a second. */
const RATE = 25
/** The value is higher than the default, so that the effect of the flag is visible. */
const RETAINED = 12
const LATE_MS = 60
const CUT_MS = 2_600
const ROUND_MS = 40
const WITHIN_MS = 600_000
/** The default of `--limit-place-wait-ms`, less the time by which a timer may be early. */
const MIN_WAIT_MS = 1_000 - 10

const { check, close } = checks('places')
const leader = await startLeader(random, RATE, ['--held-flashblocks', String(RETAINED)])
const { node, load } = leader
const late = await startLateFeed(`${node.url.replace('http', 'ws')}/feed`, LATE_MS)
const relay = await startRelay({ target: late.url })
const follower = await startFollower(leader, {
  datadir: temporary('places'),
  upstreams: [`${node.url}/`],
  feeds: [relay.url],
  more: ['--state', 'whole', '--latest', 'canonical'],
})
const both = [node, follower] as const

try {
  await readBack()
  await checkGone(node, RETAINED)
  await checkGone(follower, 4)
  await throughOneAddress()
  await overWebSocket()
  await checkLatest()
} catch (error) {
  check('the checks run to their end', false, (error as Error).stack)
}
if (own['log'] === true) console.log(follower.output())
await load.stop().catch((error: Error) => check('the load runs to its end', false, error.message))
await relay.stop()
late.stop()
for (const each of [follower, node]) check('the node ends with 0', (await each.stop()) === 0)
close()

/**
 * Records what each node reports of its newest flashblock, and reads the same again later. The
 * follower's feed is cut now and then.
 */
async function readBack(): Promise<void> {
  const first = follower.head + 2
  const recorders = both.map(({ url }) => createRecorder({ url, world: load.world, random, first }))
  const end = performance.now() + WITHIN_MS
  const isOver = ({ reads }: Recorder) =>
    reads.equal >= READS && reads.below >= READS / 10 && reads.gone > 0
  let cutAt = performance.now() + 2 * CUT_MS
  let cuts = 0
  const working = recorders.map(async (recorder, at) => {
    const blocks = at === 0 ? RETAINED + 2 : 6
    while (!isOver(recorder) && performance.now() < end) {
      await recorder.record()
      await recorder.read(blocks)
      // The pauses spread the reads over many blocks, and leave time to the nodes.
      await pause(ROUND_MS)
    }
  })
  const all = Promise.all(working).then(() => true)
  while (!(await Promise.race([all, pause(100)])))
    if (performance.now() > cutAt) {
      cuts++
      await relay.fault('cut')
      await pause(CUT_MS)
      await relay.fault('none')
      cutAt = performance.now() + 4 * CUT_MS
    }
  for (const [at, { reads }] of recorders.entries()) {
    const name = at === 0 ? 'the chain that is made' : `a follower, its feed cut ${cuts} times`
    check(
      `${name}: ${READS} later reads equal those when the flashblocks were the newest`,
      reads.equal >= READS && reads.faults.length === 0 && reads.below > 0 && reads.older > 0,
      said(reads),
    )
    measurement(`${name}: it had no time for ${reads.late}, which were asked again`)
    check(
      `${name}: flashblocks that are no longer retained are refused`,
      reads.gone > 0,
      `${reads.gone}`,
    )
  }
}

function said({ faults, ...counts }: Reads): string {
  return `${JSON.stringify(counts)} ${faults.length} faults ${faults.slice(0, 3).join('; ')}`
}

/**
 * Checks that the oldest flashblock named in a refusal can be read. The node must retain at least
 * this many blocks, and at most six more.
 */
async function checkGone({ url }: RunningNode, blocks: number): Promise<void> {
  const first = { flashblock: { number: 1, index: 0 } }
  let detail = ''
  const isRight = await until(async () => {
    const head = Number(await call(`${url}/`, 'eth_blockNumber'))
    const { replies } = await sendRequest(`${url}/flashblocks`, [
      ['eth_getBlockByNumber', [first, false]],
    ])
    const { error } = replies[0]!
    const { oldest, newest } = (error?.data ?? {}) as Record<string, { readonly number: string }>
    if (error?.code !== -32_001 || oldest === undefined || newest === undefined) return false
    const [repeated] = (
      await sendRequest(`${url}/flashblocks`, [
        ['eth_getBlockByNumber', [{ flashblock: oldest }, false]],
      ])
    ).replies
    detail = `head ${head}, held from ${Number(oldest.number)} to ${Number(newest.number)}`
    const retained = head - Number(oldest.number) + 1
    const isThere = typeof repeated?.result === 'object' && repeated.result !== null
    return isThere && retained >= blocks && retained <= blocks + 6
  }, HANGS_MS)
  check(
    `flashblocks of ${blocks} canonical blocks are retained, and the refusal names the oldest one`,
    isRight,
    detail,
  )
}

async function throughOneAddress(): Promise<void> {
  const balancer = await startBalancer(both.map(({ url }) => url))
  const url = `${balancer.url}/flashblocks`
  await until(async () => {
    const flashblockIds = await Promise.all(both.map((each) => newestFlashblockId(each)))
    return flashblockIds.every((flashblockId) => flashblockId !== undefined)
  }, HANGS_MS)
  const plain = await walk(url, { reads: 1_000, isRequesting: false })
  check(
    'behind a balancer of two nodes, plain reads sometimes go back',
    plain.backwards > 0,
    summaryOf(plain),
  )
  const requester = await walk(url, { reads: 2_000, isRequesting: true })
  check(
    'with X-Min-Flashblock no read is older than requested',
    requester.backwards === 0 && requester.faults.length === 0 && requester.reads === 2_000,
    summaryOf(requester),
  )
  const heights: number[] = []
  for (let n = 0; n < 20; n++) {
    const min = heights.length === 0 ? {} : { 'x-min-flashblock': `${heights.at(-1)}:7` }
    const { replies } = await sendRequest(`${balancer.url}/`, [['eth_blockNumber', []]], {
      headers: min,
    })
    if (replies[0]!.error === undefined) heights.push(Number(replies[0]!.result))
  }
  const isSorted = heights.every((height, at) => at === 0 || height >= heights[at - 1]!)
  check(
    'on / the canonical block number never goes back with X-Min-Flashblock',
    isSorted && heights.length > 10,
    heights.join(),
  )
  balancer.stop()
}

function summaryOf({ faults, ...counts }: Walk): string {
  return `${JSON.stringify(counts)} ${faults.length} faults ${faults.slice(0, 3).join('; ')}`
}

async function newestFlashblockId({ url }: RunningNode) {
  return parseFlashblockId(
    (await sendRequest(`${url}/flashblocks`, [['eth_chainId', []]])).flashblockId,
  )
}

async function overWebSocket(): Promise<void> {
  const socket = new WebSocket(`${follower.url.replace('http', 'ws')}/flashblocks`)
  await once(socket, 'open')
  const responses = new Map<number, (said: Said) => void>()
  const startedAt = new Map<number, number>()
  socket.on('message', (data: Buffer) => {
    const reply = JSON.parse(data.toString()) as Reply
    responses.get(reply.id)?.({ reply, ms: performance.now() - startedAt.get(reply.id)! })
  })
  let id = 0
  const send = (minFlashblock: unknown): Promise<Said> => {
    id++
    const request = { jsonrpc: '2.0', id, method: 'eth_blockNumber', params: ['pending'] }
    startedAt.set(id, performance.now())
    socket.send(JSON.stringify({ ...request, minFlashblock }))
    return new Promise((resolve) => responses.set(id, resolve))
  }
  // The next block comes within the wait of one second. A slow machine gets more tries.
  const refusals: Said[] = []
  let number = 0
  let next: Said
  const end = performance.now() + HANGS_MS
  do {
    await until(async () => ((await newestFlashblockId(node))?.index ?? 0) >= 4, HANGS_MS)
    number = (await newestFlashblockId(node))!.number
    next = await send(`${number + 1}:0`)
    if (next.reply.error !== undefined) refusals.push(next)
  } while (next.reply.error?.code === -32_001 && performance.now() < end)
  check('a WebSocket request waits for its minimum flashblock', Number(next.reply.result) > number)
  measurement(`it took ${Math.round(next.ms)} ms, after ${refusals.length} refusals`)
  const never = await send(`${number + 1_000}:0`)
  check(
    'a request for a flashblock that does not come is refused with the newest one',
    never.reply.error?.code === -32_001 && 'newest' in (never.reply.error.data as object),
    JSON.stringify(never.reply),
  )
  const all = [...refusals, never].map(({ ms }) => Math.round(ms))
  check(
    'the refusal comes only after the waiting time',
    Math.min(...all) >= MIN_WAIT_MS,
    `${all} ms`,
  )
  check(
    'a minimum that is no flashblock id is refused',
    (await send('tomorrow')).reply.error?.code === -32_602,
  )
  socket.close()
}
type Said = { readonly reply: Reply; readonly ms: number }

/** Checks that `latest` of the follower is the canonical head on both endpoints. */
async function checkLatest(): Promise<void> {
  const lead = { node: 0, follower: 0 }
  for (let n = 0; n < 60; n++) {
    for (const [name, { url }] of [['node', node] as const, ['follower', follower] as const]) {
      const { replies } = await sendRequest(`${url}/flashblocks`, [
        ['eth_blockNumber', []],
        ['eth_getBlockByNumber', ['latest', false]],
        ['eth_getBlockByNumber', ['safe', false]],
      ])
      const canonical = Number(await call(`${url}/`, 'eth_blockNumber'))
      const [height, latest] = replies.map(({ result }) => result)
      if (Number(height) !== Number((latest as { readonly number: string }).number))
        throw new Error(`latest of ${name}: ${height} and ${JSON.stringify(latest)}`)
      if (Number(height) > canonical) lead[name]++
    }
    await pause(37)
  }
  check(
    'with --latest canonical, latest on /flashblocks is never ahead of /',
    lead.follower === 0,
    JSON.stringify(lead),
  )
}

function pause(ms: number): Promise<false> {
  return new Promise((resolve) => setTimeout(() => resolve(false), ms))
}
