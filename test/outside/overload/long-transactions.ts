/**
 * Some transactions take seconds. The feed must keep its cadence, and ordinary transactions must be
 * included. The senders of long ones must get a reason.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import { type Check, measurement } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { CLAIM, EVALUATIONS, INCREMENT, POWERS } from './contracts.ts'
import {
  event,
  metric,
  NO_QUOTA,
  type OverloadedNode,
  settled,
  startOverloaded,
} from './overloaded-node.ts'
import { createSender, mined, type Sender } from './sender.ts'

const CADENCE_MS = 200
/**
 * The gas is a second of the work below, more than twice the time that the sequencer allows for it.
 */
const LONG_GAS = 10_000_000n
/** The gas is three seconds of the work. */
const LONGER_GAS = 30_000_000n
const TOO_LONG = 'takes too long for its gas'
/** A chain with a block each second is on time within this. */
const LATE_SECONDS = 3

export async function overloadByTransactions(
  check: Check,
  options: { readonly seconds: number; readonly flags: readonly string[] },
): Promise<void> {
  await keepsItsBeat(check, options)
  await comesBack(check, options)
}

/** Sends one long transaction in each block, each from its own sender, beside ordinary ones. */
async function keepsItsBeat(
  check: Check,
  { seconds, flags }: { readonly seconds: number; readonly flags: readonly string[] },
): Promise<void> {
  const node = await startOverloaded(flags)
  const feed = await subscribe(node)
  await sleep(3_000)
  const idle = feed.take()
  const ordinary = sendOrdinary(createSender(node.url, 5), node.url)
  const sent = await sendLong(node, seconds, feed)
  const loaded = feed.take()
  const { receipts, failed } = await ordinary.stop()
  measurement(
    `${percent(loaded.beat)} of ${loaded.gaps} flashblocks within a beat of their time, ${percent(idle.beat)} before, longest gap ${loaded.longestMs} ms; ${loaded.blocks} blocks in ${loaded.seconds.toFixed(1)} s`,
  )
  const late = await onTime(node)
  check(
    `with a transaction of ${LONG_GAS} gas in every block, the chain stays on time`,
    late < LATE_SECONDS,
    `${late.toFixed(1)} s behind the clock`,
  )
  const [canonical, pending] = await settled(
    () => heads(node),
    (both) => both[1] - both[0] <= 2,
  )
  check('the canonical head keeps up', pending - canonical <= 2, `${canonical}, pending ${pending}`)
  check(
    'pending reaches every height that the feed announces',
    sent.unread === 0,
    `${sent.unread} heights of the feed that pending did not reach`,
  )
  check(
    'ordinary transactions are included',
    failed.length === 0 && receipts > 0,
    `${receipts} receipts ${failed.slice(0, 3).join('; ')}`,
  )
  check(
    'no long transaction is included, and sending one again returns the reason',
    sent.included === 0 && sent.refused === sent.senders && sent.other.length === 0,
    `${sent.accepted} accepted, ${sent.refused} of the last ${sent.senders} refused when sent again, ${sent.included} included ${sent.other.slice(0, 3).join('; ')}`,
  )
  check(
    'a long transaction can be replaced while the node tries it',
    sent.isTakenBack,
    'an ordinary transaction of the same nonce is included',
  )
  feed.close()
  check('the node ends with 0', (await node.stop()) === 0)
}

/** Repeats the load without a quota: the chain falls behind, and is on time again afterwards. */
async function comesBack(
  check: Check,
  { seconds, flags }: { readonly seconds: number; readonly flags: readonly string[] },
): Promise<void> {
  const node = await startOverloaded(flags, NO_QUOTA)
  const feed = await subscribe(node)
  const sender = createSender(node.url, 0)
  const hashes: string[] = []
  for (let count = 0; count < Math.min(4, seconds / 4); count++) {
    hashes.push(await sender.send({ to: POWERS.address, gas: LONGER_GAS }))
    await sleep(1_000)
  }
  const receipts = []
  for (const hash of hashes) receipts.push(await mined(node.url, hash, '/'))
  check(
    'without a quota: canonical blocks include long transactions, which use all of their gas',
    receipts.every(({ gasUsed, status }) => BigInt(gasUsed) === LONGER_GAS && status === '0x0'),
    `${receipts.length} in blocks ${receipts.map(({ blockNumber }) => Number(blockNumber)).join(', ')}`,
  )
  feed.take()
  const late = await onTime(node)
  const skipped = (await node.metrics()).get(event('feed_skipped')) ?? 0
  const mismatch = (await node.metrics()).get(event('canonical_mismatch')) ?? 0
  check(
    'without a quota: the chain is on time again afterwards',
    late < LATE_SECONDS && mismatch === 0,
    `${late.toFixed(1)} s behind the clock, ${skipped} frames skipped, ${mismatch} mismatches`,
  )
  const count = Number(
    await call(`${node.url}/`, 'eth_getTransactionCount', [sender.address, 'latest']),
  )
  check(
    'without a quota: each long transaction is included once',
    count === hashes.length,
    `nonce ${count}`,
  )
  feed.close()
  check('without a quota: the node ends with 0', (await node.stop()) === 0)
}

/** Measures the seconds by which the newest block is behind the clock, once they are few. */
const onTime = (node: OverloadedNode) =>
  settled(
    async () => Date.now() / 1_000 - (await timestamp(node)),
    (lag) => lag < LATE_SECONDS,
  )
const percent = (part: number) => `${(100 * part).toFixed(1)} %`
const timestamp = async (node: OverloadedNode) =>
  Number(
    (
      (await call(`${node.url}/`, 'eth_getBlockByNumber', ['latest', false])) as {
        timestamp: string
      }
    ).timestamp,
  )
const pendingHeight = async (node: OverloadedNode) =>
  Number(await call(`${node.url}/flashblocks`, 'eth_blockNumber', ['pending']))
const heads = async (node: OverloadedNode) =>
  [
    await metric(node, 'flashnode_head{head="canonical"}'),
    await metric(node, 'flashnode_head{head="pending"}'),
  ] as const

/**
 * Sends a long transaction each second, from the first two accounts in turn. At the end each has a
 * reason, and one is replaced.
 */
async function sendLong(node: OverloadedNode, seconds: number, feed: Feed) {
  const senders = [0, 1].map((which) => createSender(node.url, which))
  const seen = { accepted: 0, refused: 0, included: 0, unread: 0, other: [] as string[] }
  const last = new Map<Sender, Fields>()
  for (let second = 0; second < seconds; second++) {
    const sender = senders[second % senders.length]!
    const fields = longOne(second)
    const error = await trySend(sender, fields)
    if (error === undefined) {
      seen.accepted++
      last.set(sender, fields)
      // The replacement is underpriced while the earlier one is still being tried.
    } else if (!/underpriced/.test(error)) seen.other.push(error)
    await sleep(1_000)
    const received = feed.newest()
    const isRead = (height: number) => height >= received
    if (!isRead(await settled(() => pendingHeight(node), isRead))) seen.unread++
  }
  for (const [sender, fields] of last) {
    const reported = await settled(
      async () => (await trySend(sender, fields)) ?? 'taken again',
      (error) => !/already known/.test(error),
      // The sequencer pauses between the last tries.
    )
    if (reported.includes(TOO_LONG)) seen.refused++
    else seen.other.push(reported)
  }
  for (const { address } of senders)
    seen.included += Number(
      await call(`${node.url}/`, 'eth_getTransactionCount', [address, 'latest']),
    )
  return { ...seen, senders: last.size, isTakenBack: await takeBack(node, senders[0]!, seconds) }
}

type Fields = Parameters<Sender['send']>[0]
/** Makes a long transaction with a higher fee than the ordinary ones; each is different. */
function longOne(count: number): Fields {
  const more = { fee: 2n * 10n ** 9n, nonce: 0, gas: LONG_GAS - BigInt(count) }
  const kinds = [{ to: POWERS.address }, { to: EVALUATIONS.address, data: CLAIM }] as const
  return { ...kinds[count % kinds.length]!, ...more }
}

/** Gives the reason of a refusal; undefined: the transaction is accepted. */
async function trySend(sender: Sender, fields: Fields): Promise<string | undefined> {
  try {
    await sender.send(fields)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/**
 * Sends a long transaction and replaces it by an ordinary one while it is tried; true: the ordinary
 * one is included.
 */
async function takeBack(node: OverloadedNode, sender: Sender, count: number): Promise<boolean> {
  await sender.send({ ...longOne(count), fee: 3n * 10n ** 9n })
  const fields = { to: INCREMENT.address, gas: 100_000n, fee: 4n * 10n ** 9n, nonce: 0 }
  const hash = await settled(
    () => sender.send(fields).catch(() => undefined),
    (sent) => sent !== undefined,
  )
  return hash !== undefined && (await mined(node.url, hash)).status === '0x1'
}

function sendOrdinary(sender: Sender, url: string) {
  const failed: string[] = []
  let receipts = 0
  let isOver = false
  const running = (async () => {
    while (!isOver)
      try {
        const hash = await sender.send({ to: INCREMENT.address, gas: 100_000n })
        await mined(url, hash, '/flashblocks')
        receipts++
      } catch (error) {
        failed.push((error as Error).message)
      }
  })()
  return {
    async stop() {
      isOver = true
      await running
      return { receipts, failed }
    },
  }
}

type Feed = Awaited<ReturnType<typeof subscribe>>
/** Records what a subscriber of /feed receives. */
async function subscribe(node: OverloadedNode) {
  const socket = new WebSocket(`${node.url.replace('http', 'ws')}/feed`)
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  let times: number[] = []
  let blocks = 0
  let newest = 0
  let since = performance.now()
  socket.on('message', (data: Buffer) => {
    const decoded = decodePacket(data)
    if (!('message' in decoded) || decoded.message.type !== 'flashblock') return
    // Index 0 and 1 come together.
    if (decoded.message.index !== 1) times.push(performance.now())
    if (decoded.message.index === 0) blocks++
    newest = Number(decoded.message.blockNumber)
  })
  return {
    /** Gives the results since the last call. */
    take() {
      const gaps = times.slice(1).map((at, index) => at - times[index]!)
      const inTime = gaps.filter((gap) => gap <= 2 * CADENCE_MS).length
      const seen = {
        gaps: gaps.length,
        beat: gaps.length === 0 ? 0 : inTime / gaps.length,
        longestMs: Math.round(Math.max(0, ...gaps)),
        blocks,
        seconds: (performance.now() - since) / 1_000,
      }
      times = []
      blocks = 0
      since = performance.now()
      return seen
    },
    /** Gives the newest height. */
    newest: () => newest,
    close: () => socket.close(),
  }
}
