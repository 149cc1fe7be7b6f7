/**
 * Blocks are full of logs, the cheapest memory there is, in views of the smallest size. Everything
 * must be readable, and nothing may stand still.
 */
import type { Hex } from 'viem'
import { viewMemory } from '../../../engine/views/memory.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import type { Check } from '../../kit/checks.ts'
import { call, startNode } from '../../kit/node.ts'
import { besideText, isUntouched, startClients } from './beside.ts'
import { LARGE_LOGS } from './contracts.ts'
import {
  chain,
  event,
  metric,
  NO_QUOTA,
  type OverloadedNode,
  settled,
  startOverloaded,
} from './overloaded-node.ts'
import { createSender, mined, type Sender } from './sender.ts'

/** Five transactions fill a block even if the block lacks one of its flashblocks. */
const BLOCK_GAS = 300_000_000
const GAS = 40_000_000n
const EACH = 5
/** The rounds of a transaction by its gas, with five logs of 8 KB each. */
const ROUNDS = 119
const LOGS = 5 * ROUNDS
const LOG_BYTES = 8_192
const MB = 1024 * 1024
const FULL_GAS = EACH * ROUNDS * 333_000
/**
 * The transactions are sent again up to this often until one block is full. On a busy machine some
 * flashblocks come too late.
 */
const TRIES = 5
/** A busy machine may need more than a second to execute one of these flashblocks. */
const TIMES = ['--block-time-ms', '3000', '--flashblock-time-ms', '600']

export async function overloadByLogs(
  check: Check,
  options: {
    /** The number of full blocks. */
    readonly blocks: number
    readonly random: () => number
    readonly flags: readonly string[]
  },
): Promise<void> {
  const min = minMemory()
  const flags = [...options.flags, ...TIMES, '--gas-limit', String(BLOCK_GAS)]
  const refused = await startNode([...flags, '--ephemeral', '--view-memory', String(min - 1)]).then(
    async (node) => `it starts, and ends with ${await node.stop()}`,
    (error: Error) => error.message,
  )
  check(
    `--view-memory ${min - 1} is refused for blocks of ${BLOCK_GAS} gas`,
    refused.includes(`need at least ${min}`),
    /--view-memory.*/.exec(refused)?.[0] ?? refused,
  )
  // This part checks memory, not time.
  const node = await startOverloaded(
    [
      ...flags,
      '--view-memory',
      String(min),
      ...['--limit-response-bytes', '200000000', '--limit-logs-ms', '60000'],
    ],
    NO_QUOTA,
  )
  const clients = startClients(node.url, options.random)
  const senders = Array.from({ length: EACH }, (_, which) => createSender(node.url, which))
  const hashes: Hex[] = []
  const seen: Seen[] = []
  const gas = () => seen.map(({ gasUsed }) => Number(gasUsed))
  for (let time = 0; time < TRIES && Math.max(0, ...gas()) < FULL_GAS; time++) {
    const sent = await sendAll(senders, options.blocks)
    hashes.push(...sent)
    seen.push(...(await collect(node, sent)))
  }
  check(
    `${min} MB of views suffice for ${hashes.length * LOGS} logs of ${LOG_BYTES} bytes in blocks`,
    seen.reduce((sum, { count }) => sum + count, 0) === hashes.length &&
      Math.max(...gas()) >= FULL_GAS,
    `${seen.length} blocks of ${gas()
      .map((one) => Math.round(one / 1e6))
      .join(', ')} M gas`,
  )
  const wrong = await readAll(node, seen)
  check('receipts and logs have the right content', wrong.length === 0, wrong.join('; '))
  const last = seen.at(-1)!.number
  const persisted = await settled(
    async () =>
      (await metric(node, chain('head_canonical'))) - (await metric(node, chain('fold_lag'))),
    (height) => height >= last,
  )
  const later = persisted >= last ? await readAll(node, seen) : ['they are not folded']
  check(
    'receipts and logs have the right content after the blocks are persisted',
    later.length === 0,
    later.join('; '),
  )
  const beside = await clients.stop()
  check(
    'other clients are served meanwhile',
    isUntouched(beside),
    `${besideText(beside)} ${beside.wrong.slice(0, 5).join('; ')}`,
  )
  await checkSettled(check, node)
}

/** Gives the minimum in megabytes, as the node computes it. */
function minMemory(): number {
  const { callMs, traceMs, logsMs, graceMs } = DEFAULT_LIMITS
  const { minimum } = viewMemory({
    gasLimit: BLOCK_GAS,
    blockTimeMs: 3_000,
    deadlineMs: Math.max(callMs, traceMs, logsMs) + graceMs,
  })
  return Math.ceil(minimum / MB)
}

async function sendAll(senders: readonly Sender[], blocks: number): Promise<readonly Hex[]> {
  const data = `0x${ROUNDS.toString(16).padStart(64, '0')}` as const
  const sent = await Promise.all(
    senders.map(async (sender) => {
      const hashes: Hex[] = []
      for (let block = 0; block < blocks; block++)
        hashes.push(await sender.send({ to: LARGE_LOGS.address, gas: GAS, data }))
      return hashes
    }),
  )
  return sent.flat()
}

type Seen = { readonly number: number; readonly gasUsed: Hex; readonly count: number }

/** Finds the blocks of the transactions. */
async function collect(node: OverloadedNode, hashes: readonly Hex[]): Promise<readonly Seen[]> {
  const counts = new Map<number, number>()
  for (const hash of hashes) {
    const { blockNumber, status } = await mined(node.url, hash, '/')
    if (status !== '0x1') throw new Error(`${hash} failed: ${status}`)
    counts.set(Number(blockNumber), (counts.get(Number(blockNumber)) ?? 0) + 1)
  }
  const numbers = [...counts].sort(([a], [b]) => a - b)
  const seen: Seen[] = []
  for (const [number, count] of numbers) {
    const block = await call(`${node.url}/`, 'eth_getBlockByNumber', [hex(number), false])
    seen.push({ number, count, gasUsed: (block as { gasUsed: Hex }).gasUsed })
  }
  return seen
}

type Log = {
  readonly data: Hex
  readonly topics: readonly Hex[]
  readonly logIndex: Hex
  readonly transactionIndex: Hex
}

/** Lists what is wrong with the receipts and logs of these blocks. */
async function readAll(node: OverloadedNode, blocks: readonly Seen[]): Promise<readonly string[]> {
  const wrong: string[] = []
  for (const { number, count } of blocks) {
    const receipts = (await read(node, 'eth_getBlockReceipts', hex(number))) as {
      logs: readonly Log[]
    }[]
    const ofReceipts = receipts.flatMap(({ logs }) => logs)
    const range = { fromBlock: hex(number), toBlock: hex(number) }
    const logs = (await read(node, 'eth_getLogs', range)) as readonly Log[]
    if (JSON.stringify(logs) !== JSON.stringify(ofReceipts))
      wrong.push(`block ${number}: ${logs.length} logs, ${ofReceipts.length} in the receipts`)
    const off = logs.findIndex((log, index) => !isMade(log, index))
    if (logs.length !== count * LOGS || off >= 0)
      wrong.push(
        `block ${number}: ${logs.length} logs instead of ${count * LOGS}, wrong from ${off}`,
      )
  }
  return wrong
}

/**
 * Reads, and repeats the read when its old view is recycled because its pages are needed.
 * @throws the error of the last try
 */
async function read(node: OverloadedNode, method: string, parameter: unknown): Promise<unknown> {
  for (let time = 1; ; time++)
    try {
      return await call(`${node.url}/`, method, [parameter])
    } catch (error) {
      if (time === TRIES || !/-32002/.test((error as Error).message)) throw error
    }
}

/** Whether the log with this index in a block is as the contract makes it. */
function isMade({ data, topics, logIndex }: Log, index: number): boolean {
  const round = ROUNDS - (Math.floor(index / 5) % ROUNDS)
  const word = round.toString(16).padStart(64, '0')
  return (
    Number(logIndex) === index &&
    topics.length === index % 5 &&
    topics.every((topic) => topic === `0x${word}`) &&
    data === `0x${word}${'0'.repeat(2 * LOG_BYTES - 64)}`
  )
}

/** Checks that the chain is on time, and that its memory is free for others. */
async function checkSettled(check: Check, node: OverloadedNode): Promise<void> {
  const heads = () =>
    Promise.all(
      ['canonical', 'pending'].map((head) => metric(node, `flashnode_head{head="${head}"}`)),
    )
  const [canonical, pending] = await settled(heads, ([a, b]) => b! - a! <= 2)
  const metrics = await node.metrics()
  const mismatches = metrics.get(event('canonical_mismatch')) ?? 0
  check(
    'the canonical head keeps up',
    pending! - canonical! <= 2 && mismatches === 0,
    `${canonical}, pending ${pending}, ${mismatches} mismatches, ${metrics.get(event('feed_skipped')) ?? 0} frames skipped`,
  )
  const free = await settled(
    () => metric(node, chain('view_free_pages')),
    (pages) => pages > 0.9 * metrics.get(chain('view_pages'))!,
  )
  check(
    'the pages of the views are free again',
    free > 0.9 * metrics.get(chain('view_pages'))!,
    `${free} of ${metrics.get(chain('view_pages'))}`,
  )
  check('the node ends with 0', (await node.stop()) === 0)
}

const hex = (number: number): Hex => `0x${number.toString(16)}`
