/**
 * The node is killed by SIGKILL at random moments under load, again and again on one data
 * directory. No acknowledged transaction may be lost.
 * Usage: node test/outside/kill.ts [--times N] [--seed S]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { privateKeyToAccount } from 'viem/accounts'
import { checks, HANGS_MS, measurement } from '../kit/checks.ts'
import { call, KEYS, type RunningNode, startNode } from '../kit/node.ts'
import { mulberry32 } from '../kit/run-options.ts'

type Receipt = { blockNumber: string; transactionIndex: string; gasUsed: string; status: string }

const { values } = parseArgs({ options: { times: { type: 'string' }, seed: { type: 'string' } } })
const times = Number(values.times ?? 20)
const seed = Number(values.seed ?? Date.now() % 1_000_000)
console.log(`kill: ${times} times, seed ${seed}`)

const random = mulberry32(seed)

const accounts = KEYS.map((key) => ({ account: privateKeyToAccount(key), nonce: 0 }))
/** The hashes of accepted transactions, with the receipts that were visible. */
const accepted = new Map<string, Receipt | undefined>()
/** Counts the visible receipts. */
let receipts = 0
let newest = { number: 0, hash: '' }
const datadir = mkdtempSync(join(tmpdir(), 'flashnode-kill-'))
const flags = ['--datadir', datadir, '--rate-limit', 'off']
const { check, close } = checks('kill')

/** Submits transactions, and reads receipts and the canonical head until the node has ended. */
async function load(node: RunningNode): Promise<void> {
  const flashblocks = `${node.url}/flashblocks`
  let isGone = false
  node.child.once('exit', () => {
    isGone = true
  })
  const whileAlive = async (step: () => Promise<unknown>) => {
    while (!isGone)
      try {
        await step()
      } catch (error) {
        // The killed node cuts connections in the middle; any other error is a finding.
        if (!isGone && !/fetch failed|terminated|ECONNRE/.test(String(error))) throw error
      }
  }
  const senders = accounts.map((sender) =>
    whileAlive(async () => {
      const raw = await sender.account.signTransaction({
        chainId: 196,
        nonce: sender.nonce,
        gas: 21_000n,
        maxFeePerGas: 10n ** 10n,
        maxPriorityFeePerGas: 1_000_000n,
        to: '0x00000000000000000000000000000000000000f1',
        value: 1n,
        type: 'eip1559',
      })
      const hash = (await call(flashblocks, 'eth_sendRawTransaction', [raw])) as string
      accepted.set(hash, undefined)
      sender.nonce++
      const receipt = (await call(flashblocks, 'eth_getTransactionReceipt', [
        hash,
      ])) as Receipt | null
      if (receipt === null) return
      accepted.set(hash, receipt)
      receipts++
    }),
  )
  const watcher = whileAlive(async () => {
    const block = (await call(`${node.url}/`, 'eth_getBlockByNumber', ['latest', false])) as {
      number: string
      hash: string
    }
    if (Number(block.number) >= newest.number)
      newest = { number: Number(block.number), hash: block.hash }
  })
  await Promise.all([...senders, watcher])
}

/**
 * A transaction may be accepted although the kill lost the response, so the node's own nonce is
 * read.
 */
async function takeNonces(node: RunningNode): Promise<void> {
  for (const sender of accounts)
    sender.nonce = Number(
      await call(`${node.url}/flashblocks`, 'eth_getTransactionCount', [
        sender.account.address,
        'pending',
      ]),
    )
}

/** The milliseconds of each restart. */
const starts: number[] = []
async function restartNode(): Promise<RunningNode> {
  const restarted = await startNode(flags)
  starts.push(restarted.readyMs)
  return restarted
}

/**
 * Before a kill, at most this many receipts become visible, and then at most this many milliseconds
 * pass.
 */
const MAX_PRINTED = 20
const MAX_MS = 2_500
/** Waits until this many more receipts are visible. */
async function receiptsGrow({ child }: RunningNode, count: number): Promise<void> {
  const wanted = receipts + count
  const end = performance.now() + HANGS_MS
  while (receipts < wanted && child.exitCode === null && performance.now() < end) await pause(5)
}
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
let lostBlocks = 0
for (let round = 0; round < times; round++) {
  const node = await (round === 0 ? startNode(flags) : restartNode())
  if (newest.number > 0) {
    const same = (await call(`${node.url}/`, 'eth_getBlockByNumber', [
      `0x${newest.number.toString(16)}`,
      false,
    ])) as { hash: string } | null
    if (same?.hash !== newest.hash) {
      lostBlocks++
      console.log(`block ${newest.number} was ${newest.hash}, is ${same?.hash}`)
    }
  }
  await takeNonces(node)
  const running = load(node)
  await receiptsGrow(node, Math.floor(random() * MAX_PRINTED))
  await pause(random() * MAX_MS)
  node.child.kill('SIGKILL')
  await running
}
check(
  `after each of ${times} kills the highest canonical block seen has the same hash`,
  lostBlocks === 0,
  `${lostBlocks} lost, newest ${newest.number}`,
)
// The restart after the last kill is like the others.
const node = await restartNode()
const slowest = Math.max(...starts)
check('every restart ended in time', slowest < HANGS_MS)
const middle = starts.toSorted((a, b) => a - b)[starts.length >> 1]!
measurement(`restarts took ${Math.round(middle)} ms in the middle, ${Math.round(slowest)} at most`)

/**
 * Sealed receipts of the accepted transactions. A transaction counts as lost after this many blocks
 * without a new receipt.
 */
const LOST_BLOCKS = 15
const sealed = new Map<string, Receipt>()
const head = async () => Number(await call(`${node.url}/`, 'eth_blockNumber'))
for (let lastNews = await head(); sealed.size < accepted.size; ) {
  const number = await head()
  const known = sealed.size
  for (const hash of accepted.keys()) {
    if (sealed.has(hash)) continue
    const receipt = (await call(`${node.url}/`, 'eth_getTransactionReceipt', [
      hash,
    ])) as Receipt | null
    if (receipt !== null) sealed.set(hash, receipt)
  }
  if (sealed.size > known) lastNews = number
  else if (number > lastNews + LOST_BLOCKS) break
}
let missing = 0
let changed = 0
let receiptsSeen = 0
for (const [hash, receipt] of accepted) {
  const now = sealed.get(hash)
  if (now === undefined) {
    missing++
    const where = await call(`${node.url}/flashblocks`, 'eth_getTransactionByHash', [hash])
    console.log(`accepted, but has no receipt: ${hash} (${JSON.stringify(where)})`)
  } else if (receipt !== undefined) {
    receiptsSeen++
    for (const field of ['blockNumber', 'transactionIndex', 'gasUsed', 'status'] as const)
      if (now[field] !== receipt[field]) {
        changed++
        console.log(`${hash}: ${field} was ${receipt[field]}, is ${now[field]}`)
      }
  }
}
check('no accepted transaction was lost', missing === 0, `${missing} of ${accepted.size}`)
check('no visible receipt changed or was lost', changed === 0, `${changed} of ${receiptsSeen}`)
check(
  'enough transactions were accepted and receipts read between the kills',
  accepted.size > times * 5 && receiptsSeen > times,
  `${accepted.size} accepted, ${receiptsSeen} receipts shown`,
)

/**
 * The ledger covers all kills, and states the outcome of each promise with its TransactionLocation.
 */
type Status = {
  status: string
  promises: { blockNumber: string; transactionIndex: string; fate: string }[]
}
let wrong = 0
let promises = 0
let unpromised = 0
for (const [hash, receipt] of sealed) {
  const reported = (await call(`${node.url}/flashblocks`, 'flashblocks_transactionStatus', [
    hash,
  ])) as Status
  promises += reported.promises.length
  if (accepted.get(hash) !== undefined && reported.promises.length === 0) unpromised++
  const outcomeOf = ({ blockNumber, transactionIndex }: Status['promises'][number]) => {
    if (blockNumber !== receipt.blockNumber) return 'dropped'
    return transactionIndex === receipt.transactionIndex ? 'kept' : 'reordered'
  }
  const isRight = reported.promises.every((promise) => promise.fate === outcomeOf(promise))
  if (reported.status === 'sealed' && isRight) continue
  wrong++
  console.log(`${hash}: ${JSON.stringify(reported)}, its receipt is ${JSON.stringify(receipt)}`)
}
check(
  "the ledger's outcome of each promise agrees with the sealed block",
  wrong === 0 && promises > 0,
  `${wrong} transactions have another one, of ${promises} promises`,
)
check(
  'every receipt that was visible before a kill is in the ledger after it',
  unpromised === 0,
  `${unpromised} of ${receiptsSeen} are not`,
)
check('SIGTERM ends the node with 0', (await node.stop()) === 0)
rmSync(datadir, { recursive: true, force: true })
close()
