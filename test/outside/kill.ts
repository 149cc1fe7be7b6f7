/**
 * SIGKILL at random moments under load, again and again on one data directory: nothing that was acknowledged is lost.
 * Usage: node test/outside/kill.ts [--times N] [--seed S]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { privateKeyToAccount } from 'viem/accounts'
import { checks, figure, HANGS_MS } from '../kit/checks.ts'
import { call, KEYS, type RunningNode, startNode } from '../kit/node.ts'
import { mulberry32 } from '../kit/run-options.ts'

type Receipt = { blockNumber: string; transactionIndex: string; gasUsed: string; status: string }

const { values } = parseArgs({ options: { times: { type: 'string' }, seed: { type: 'string' } } })
const times = Number(values.times ?? 20)
const seed = Number(values.seed ?? Date.now() % 1_000_000)
console.log(`kill: ${times} times, seed ${seed}`)

const random = mulberry32(seed)

const accounts = KEYS.map((key) => ({ account: privateKeyToAccount(key), nonce: 0 }))
/** Hashes whose submission was answered with success, and what was shown of their receipts. */
const accepted = new Map<string, Receipt | undefined>()
/** Receipts that were shown. */
let receipts = 0
let newest = { number: 0, hash: '' }
const datadir = mkdtempSync(join(tmpdir(), 'flashnode-kill-'))
const flags = ['--datadir', datadir, '--rate-limit', 'off']
const { check, close } = checks('kill')

/** Submits, asks for receipts and for the canonical head until the node is gone. */
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
        // The killed node cuts connections in the middle; anything else is a finding.
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

/** An answer that the kill swallowed may have been accepted all the same: the node's own nonce is the truth. */
async function takeNonces(node: RunningNode): Promise<void> {
  for (const sender of accounts)
    sender.nonce = Number(
      await call(`${node.url}/flashblocks`, 'eth_getTransactionCount', [
        sender.account.address,
        'pending',
      ]),
    )
}

/** Milliseconds. */
const starts: number[] = []
async function startAgain(): Promise<RunningNode> {
  const again = await startNode(flags)
  starts.push(again.readyMs)
  return again
}

/** Before a kill so many receipts are shown, and then so many milliseconds pass, at most. */
const MOST_SHOWN = 20
const MOST_MS = 2_500
/** So many more receipts are shown. */
async function showsMore({ child }: RunningNode, count: number): Promise<void> {
  const wanted = receipts + count
  const end = performance.now() + HANGS_MS
  while (receipts < wanted && child.exitCode === null && performance.now() < end) await pause(5)
}
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
let lostBlocks = 0
for (let round = 0; round < times; round++) {
  const node = await (round === 0 ? startNode(flags) : startAgain())
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
  await showsMore(node, Math.floor(random() * MOST_SHOWN))
  await pause(random() * MOST_MS)
  node.child.kill('SIGKILL')
  await running
}
check(
  `after each of ${times} kills the highest canonical block seen has the same hash`,
  lostBlocks === 0,
  `${lostBlocks} lost, newest ${newest.number}`,
)
// The restart after the last kill is one like the others.
const node = await startAgain()
const slowest = Math.max(...starts)
check('no restart hung', slowest < HANGS_MS)
const middle = starts.toSorted((a, b) => a - b)[starts.length >> 1]!
figure(`restarts took ${Math.round(middle)} ms in the middle, ${Math.round(slowest)} at most`)

/** Sealed receipts of the accepted transactions. So many blocks without a new one: it is lost. */
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
let shown = 0
for (const [hash, receipt] of accepted) {
  const now = sealed.get(hash)
  if (now === undefined) {
    missing++
    const where = await call(`${node.url}/flashblocks`, 'eth_getTransactionByHash', [hash])
    console.log(`accepted, but has no receipt: ${hash} (${JSON.stringify(where)})`)
  } else if (receipt !== undefined) {
    shown++
    for (const field of ['blockNumber', 'transactionIndex', 'gasUsed', 'status'] as const)
      if (now[field] !== receipt[field]) {
        changed++
        console.log(`${hash}: ${field} was ${receipt[field]}, is ${now[field]}`)
      }
  }
}
check('no accepted transaction was lost', missing === 0, `${missing} of ${accepted.size}`)
check('no shown receipt changed or was lost', changed === 0, `${changed} of ${shown}`)
check(
  'there was load',
  accepted.size > times * 5 && shown > times,
  `${accepted.size} accepted, ${shown} receipts shown`,
)

/** Of the ledger, over all kills: what each promise came to, by the place where its transaction is. */
type Status = {
  status: string
  promises: { blockNumber: string; transactionIndex: string; fate: string }[]
}
let wrong = 0
let promises = 0
let unpromised = 0
for (const [hash, receipt] of sealed) {
  const told = (await call(`${node.url}/flashblocks`, 'flashblocks_transactionStatus', [
    hash,
  ])) as Status
  promises += told.promises.length
  if (accepted.get(hash) !== undefined && told.promises.length === 0) unpromised++
  const fateOf = ({ blockNumber, transactionIndex }: Status['promises'][number]) => {
    if (blockNumber !== receipt.blockNumber) return 'dropped'
    return transactionIndex === receipt.transactionIndex ? 'kept' : 'reordered'
  }
  const isRight = told.promises.every((promise) => promise.fate === fateOf(promise))
  if (told.status === 'sealed' && isRight) continue
  wrong++
  console.log(`${hash}: ${JSON.stringify(told)}, its receipt is ${JSON.stringify(receipt)}`)
}
check(
  'each promise has the fate that the sealed block gives it',
  wrong === 0 && promises > 0,
  `${wrong} transactions have another one, of ${promises} promises`,
)
check(
  'what was shown before a kill is in the ledger after it',
  unpromised === 0,
  `${unpromised} of ${shown} are not`,
)
check('SIGTERM ends with 0', (await node.stop()) === 0)
rmSync(datadir, { recursive: true, force: true })
close()
