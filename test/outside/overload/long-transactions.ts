/** Transactions that take seconds: the feed keeps its beat, ordinary ones are included, and whoever sent a long one is told. */
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { decodeFrame } from '../../../engine/flashblocks/codec.ts'
import type { Check } from '../checks.ts'
import type { Edit } from '../edits.ts'
import { call } from '../node-process.ts'
import { ENDLESS, INCREMENT } from './contracts.ts'
import { event, metric, type OverloadedNode, settled, startOverloaded } from './overloaded-node.ts'
import { createSender, mined, type Sender } from './sender.ts'

const CADENCE_MS = 200
const LONG_GAS = 30_000_000n
const TOO_LONG = 'takes longer than a flashblock has'
/** What a busy machine may take of the beat that it had before. */
const MAY_LOSE = 0.5

/** A sequencer that stops no transaction: blocks come as late as they take. */
const NO_QUOTA: readonly Edit[] = [
  {
    file: 'engine/sources/sequencer-fill.ts',
    find: '{ isExpired: () => now() >= end }',
    replace: '{ isExpired: () => end === undefined }',
  },
]

export async function overloadByTransactions(
  check: Check,
  options: { readonly seconds: number; readonly flags: readonly string[] },
): Promise<void> {
  await keepsItsBeat(check, options)
  await comesBack(check, options)
}

/** One long transaction in each block, from a sender of its own each, beside ordinary ones. */
async function keepsItsBeat(
  check: Check,
  { seconds, flags }: { readonly seconds: number; readonly flags: readonly string[] },
): Promise<void> {
  const node = await startOverloaded(flags)
  const feed = await subscribe(node)
  await sleep(3_000)
  const idle = feed.take()
  const ordinary = sendOrdinary(createSender(node.url, 5), node.url)
  const sent = await sendLong(node, seconds)
  const loaded = feed.take()
  const { receipts, failed } = await ordinary.stop()
  check(
    `a transaction of ${LONG_GAS} gas in every block: the feed keeps its beat`,
    loaded.beat >= idle.beat - MAY_LOSE,
    `${percent(loaded.beat)} of ${loaded.gaps} flashblocks within a beat of their time, ${percent(idle.beat)} before, longest gap ${loaded.longestMs} ms`,
  )
  check(
    'there is a block every second',
    loaded.blocks >= loaded.seconds * (1 - MAY_LOSE) - 1,
    `${loaded.blocks} in ${loaded.seconds.toFixed(1)} s`,
  )
  const [canonical, pending] = await heads(node)
  check('the canonical head keeps up', pending - canonical <= 2, `${canonical}, pending ${pending}`)
  check(
    'ordinary transactions are included',
    failed.length === 0 && receipts > 0,
    `${receipts} receipts ${failed.slice(0, 3).join('; ')}`,
  )
  check(
    'whoever sends a long one again is told why it is not there',
    sent.refused + sent.included > 0 && sent.other.length === 0,
    `${sent.accepted} accepted, ${sent.refused} refused when sent again, ${sent.included} told that they are included ${sent.other.slice(0, 3).join('; ')}`,
  )
  feed.close()
  check('the node ends with 0', (await node.stop()) === 0)
}

/** The same without a quota: the chain is late, and on time again when they are through. */
async function comesBack(
  check: Check,
  { flags }: { readonly flags: readonly string[] },
): Promise<void> {
  const node = await startOverloaded(flags, NO_QUOTA)
  const feed = await subscribe(node)
  const sender = createSender(node.url, 0)
  const hashes: string[] = []
  for (let count = 0; count < 4; count++) {
    hashes.push(await sender.send({ to: ENDLESS.address, gas: LONG_GAS }))
    await sleep(1_000)
  }
  const receipts = []
  for (const hash of hashes) receipts.push(await mined(node.url, hash))
  check(
    'without a quota: long transactions are included, and the writer and the canonical head follow',
    receipts.every(({ gasUsed, status }) => BigInt(gasUsed) === LONG_GAS && status === '0x0'),
    `${receipts.length} in blocks ${receipts.map(({ blockNumber }) => Number(blockNumber)).join(', ')}`,
  )
  feed.take()
  const late = await settled(
    async () => Date.now() / 1_000 - (await timestamp(node)),
    (seconds) => seconds < 3,
    60_000,
  )
  const skipped = (await node.metrics()).get(event('feed_skipped')) ?? 0
  const mismatch = (await node.metrics()).get(event('canonical_mismatch')) ?? 0
  check(
    'without a quota: the chain is on time again afterwards',
    late < 3 && mismatch === 0,
    `${late.toFixed(1)} s behind the clock, ${skipped} frames skipped, ${mismatch} mismatches`,
  )
  const count = Number(
    await call(`${node.url}/`, 'eth_getTransactionCount', [sender.address, 'latest']),
  )
  check('without a quota: each was included once', count === hashes.length, `nonce ${count}`)
  feed.close()
  check('without a quota: the node ends with 0', (await node.stop()) === 0)
}

const percent = (part: number) => `${(100 * part).toFixed(1)} %`
const timestamp = async (node: OverloadedNode) =>
  Number(
    (
      (await call(`${node.url}/`, 'eth_getBlockByNumber', ['latest', false])) as {
        timestamp: string
      }
    ).timestamp,
  )
const heads = async (node: OverloadedNode) =>
  [
    await metric(node, 'flashnode_head{head="canonical"}'),
    await metric(node, 'flashnode_head{head="pending"}'),
  ] as const

/** Each second one, from the first five accounts in turn; afterwards all of them once more. */
async function sendLong(node: OverloadedNode, seconds: number) {
  const senders = [0, 1, 2, 3, 4].map((which) => createSender(node.url, which))
  const tries = new Map<Sender, bigint>()
  const seen = { accepted: 0, refused: 0, included: 0, other: [] as string[] }
  const send = async (sender: Sender, fee: bigint) => {
    try {
      await sender.send({ to: ENDLESS.address, gas: LONG_GAS, fee, nonce: 0 })
      seen.accepted++
    } catch (error) {
      const { message } = error as Error
      if (message.includes(TOO_LONG)) seen.refused++
      else if (message.includes('nonce too low')) seen.included++
      // The one of before is still being tried.
      else if (!/already known|underpriced/.test(message)) seen.other.push(message)
    }
  }
  for (let second = 0; second < seconds; second++) {
    const sender = senders[second % senders.length]!
    // Above the ordinary ones, and above its own of before.
    const fee = ((tries.get(sender) ?? 2n * 10n ** 9n) * 5n) / 4n
    tries.set(sender, fee)
    await send(sender, fee)
    await sleep(1_000)
  }
  // The last ones have been given up by then.
  await sleep(3_000)
  for (const [sender, fee] of tries) await send(sender, fee)
  return seen
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

/** What a subscriber of /feed sees. */
async function subscribe(node: OverloadedNode) {
  const socket = new WebSocket(`${node.url.replace('http', 'ws')}/feed`)
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  let times: number[] = []
  let blocks = 0
  let since = performance.now()
  socket.on('message', (data: Buffer) => {
    const decoded = decodeFrame(data)
    if (!('message' in decoded) || decoded.message.type !== 'flashblock') return
    // Index 0 and 1 come together.
    if (decoded.message.index !== 1) times.push(performance.now())
    if (decoded.message.index === 0) blocks++
  })
  return {
    /** Since the last time it was asked. */
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
    close: () => socket.close(),
  }
}
