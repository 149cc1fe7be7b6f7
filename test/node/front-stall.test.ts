/**
 * The front stands still for seconds. The chain must go on without it, and those who wait for the
 * front may lose nothing.
 */
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { signTransaction } from '../../engine/primitives/transaction-codec.ts'
import { openSocket, type TestSocket } from '../fixtures/sockets.ts'
import type { Edit } from '../kit/edits.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'

const STALL_MS = 5_000
const FLASHBLOCK_MS = 200
/**
 * After a pause of this length the thread may have missed visible flashblocks that were replaced
 * meanwhile.
 */
const STOOD_MS = 50

/**
 * Each entry was read while the front's event loop stood still: block, index, and its time in
 * milliseconds since 1970.
 */
type Seen = readonly [number: number, index: number, atMs: number]

const sent = signTransaction(
  {
    type: 2,
    chainId: 196n,
    nonce: 0n,
    to: new Uint8Array(20),
    value: 1n,
    gasLimit: 21_000n,
    input: new Uint8Array(0),
    maxFeePerGas: 10n ** 10n,
    maxPriorityFeePerGas: 0n,
    accessList: [],
  },
  hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
)

/**
 * At the signal the front takes a transaction into its pool, and then only reads the shared views.
 */
const stall: Edit = {
  file: 'workers/node/serve.ts',
  find: 'await becomeReady(context, parts, { servers, url, source, startHead, isQuiet })',
  replace: `await becomeReady(context, parts, { servers, url, source, startHead, isQuiet })
  process.once('SIGUSR2', () => {
    const taken = parts.transactions.service.submit(hexToBytes('${bytesToHex(sent.raw)}'), { address: '', isGone: false })
    const word = new Int32Array(new SharedArrayBuffer(4))
    const seen = []
    let [lagMs, stoodMs] = [0, 0]
    for (let [now, end] = [Date.now(), Date.now() + ${STALL_MS}]; now < end; ) {
      const { number, index } = readNewest(parts.reader, 'flashblocks', (view) => view.pending)
      const last = seen.at(-1)
      if (last?.[0] !== Number(number) || last?.[1] !== index)
        seen.push([Number(number), index, Date.now()])
      Atomics.wait(word, 0, 0, 2)
      const lateMs = Date.now() - now - 2
      lagMs = Math.max(lagMs, lateMs)
      if (lateMs > ${STOOD_MS}) stoodMs += lateMs
      now = Date.now()
    }
    process.stdout.write('stalled ' + JSON.stringify({ error: taken.error?.message, seen, lagMs, stoodMs }) + '\\n')
  })`,
}
const hex: Edit = {
  file: 'workers/node/serve.ts',
  find: "import { readNewest } from '../../engine/chain/view-reads.ts'",
  replace:
    "import { readNewest } from '../../engine/chain/view-reads.ts'\nimport { hexToBytes } from '../../engine/primitives/hex.ts'",
}

type Stall = {
  readonly seen: readonly Seen[]
  /** The maximum delay of this thread itself, which a busy machine adds to everything. */
  readonly lagMs: number
  /** The sum of the long delays. */
  readonly stoodMs: number
}

async function standStill(node: RunningNode): Promise<Stall> {
  let text = ''
  const reported = new Promise<string>((resolve) => {
    node.child.stdout!.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      const line = /^stalled (.*)\n/m.exec(text)
      if (line !== null) resolve(line[1]!)
    })
  })
  node.child.kill('SIGUSR2')
  const { error, ...stall } = JSON.parse(await Promise.race([reported, ended(node)]))
  expect(error).toBe(undefined)
  return stall
}

async function ended({ child, output }: RunningNode): Promise<never> {
  await once(child, 'exit')
  throw new Error(`the node ended:\n${output()}`)
}

/** Reads the feed up to this flashblock: every frame must follow the one before. */
async function readUpTo(feed: TestSocket, [lastNumber, lastIndex]: Seen): Promise<void> {
  let [number, next] = [0, 0]
  for (;;) {
    const decoded = decodePacket(Buffer.from(await feed.next()))
    if (!('message' in decoded)) throw new Error(JSON.stringify(decoded))
    const { message } = decoded
    if (message.type !== 'flashblock') continue
    // The client joined in the middle of the first block.
    if (message.base === undefined && number === 0) continue
    if (message.base !== undefined) {
      if (number > 0) expect(Number(message.base.blockNumber)).toBe(number + 1)
      number = Number(message.base.blockNumber)
      next = 0
    }
    expect(message.index).toBe(next)
    if (number > lastNumber || (number === lastNumber && next >= lastIndex)) return
    next++
  }
}

test('flashblocks are built and published on time while the front stands still', async () => {
  const flags = ['--ephemeral', '--feed-form', 'plain', '--log-level', 'silent']
  const node = await startNode(flags, 'dev', [stall, hex])
  const feed = await openSocket(`${node.url.replace('http', 'ws')}/feed`)
  await feed.next()
  const { seen, lagMs, stoodMs } = await standStill(node)
  const text = JSON.stringify({ lagMs, stoodMs, seen })
  const times = seen.map(([, , atMs]) => atMs)
  const pauses = [...times.slice(1), times[0]! + STALL_MS].map((atMs, at) => atMs - times[at]!)
  expect(Math.max(...pauses), text).toBeLessThan(2 * FLASHBLOCK_MS + 4 * lagMs)
  // The first entry was visible before.
  const ticked = seen.slice(1).filter(([, index]) => index > 0)
  expect(ticked.length, text).toBeGreaterThan(((STALL_MS - stoodMs) / FLASHBLOCK_MS) * 0.8)
  // Flashblocks are due at multiples of their interval. The pool is requested for each of them, and
  // is as silent as the front.
  const late = ticked.map(([, , atMs]) => atMs % FLASHBLOCK_MS).toSorted((a, b) => a - b)
  expect(late[Math.floor(late.length / 2)], text).toBeLessThan(FLASHBLOCK_MS / 4 + lagMs)

  await readUpTo(feed, seen.at(-1)!)
  const [number] = seen.at(-1)!
  expect(Number(await call(node.url, 'eth_blockNumber'))).toBeGreaterThanOrEqual(number - 1)
  // The front had accepted this transaction but could not pass it on.
  while (
    (await call(`${node.url}/flashblocks`, 'eth_getTransactionReceipt', [
      bytesToHex(sent.hash),
    ])) === null
  )
    await feed.next()
  feed.close()
  expect(await node.stop('SIGTERM')).toBe(0)
})
