/**
 * Random controls run under a load of transactions. Each must respond in time, and the chain must
 * stay valid and go on.
 */
import type { Hex } from 'viem'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { accountOf, opClient } from '../../fixtures/op-client.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { mulberry32 } from '../../kit/run-options.ts'

const SEED = Number(process.env['CONTROLS_SEED'] ?? Date.now() % 1_000_000)
/** Runs by hand have more steps, because a fault may be one in hundreds. */
const STEPS = Number(process.env['CONTROLS_STEPS'] ?? 60)
/** A control waits at most until a block becomes canonical. */
const TIMEOUT_MS = 60_000
const random = mulberry32(SEED)
const below = (count: number) => Math.floor(random() * count)

let node: RunningNode
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off', '--finalized-lag', '20'])
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})

const request = (method: string, ...params: readonly unknown[]) =>
  call(`${node.url}/flashblocks`, method, params)
const numberOf = async (tag: string) =>
  Number(((await request('eth_getBlockByNumber', tag, false)) as Block).number)
type Block = {
  readonly number: Hex
  readonly hash: Hex
  readonly parentHash: Hex
  readonly transactions: readonly Hex[]
}

const snapshots: unknown[] = []
const CONTROLS: readonly (readonly [method: string, params: () => readonly unknown[]])[] = [
  ['dev_reorg', () => [{ depth: 0, keep: random() < 0.5 }]],
  ['dev_reorg', () => [{ depth: 1 + below(4), keep: random() < 0.5 }]],
  ['dev_equivocate', () => [{ keep: random() < 0.5 }]],
  ['dev_gap', () => []],
  ['dev_silence', () => [{ ms: 100 + below(400) }]],
  ['dev_pause', () => []],
  ['dev_step', () => []],
  ['dev_step', () => []],
  ['dev_seal', () => []],
  ['dev_resume', () => []],
  ['dev_resume', () => []],
  ['anvil_mine', () => [1 + below(4)]],
  ['evm_increaseTime', () => [1 + below(20)]],
  ['anvil_setBalance', () => [accountOf(0).address, '0x56bc75e2d63100000']],
  ['evm_snapshot', () => []],
  ['evm_revert', () => [snapshots[below(snapshots.length)] ?? '0x1']],
]

/** A control may refuse with these texts: it has nothing to break, or comes too late. */
const REFUSED =
  /no block is in progress|has transactions|not paused|is final|not kept any more|snapshot is lost/

/** Sends one transfer after the other with the node's nonce, until it is stopped. */
async function sendAll(which: number, signal: AbortSignal): Promise<void> {
  const { account } = opClient(node.url, which)
  while (!signal.aborted) {
    const nonce = Number(await request('eth_getTransactionCount', account.address, 'pending'))
    const raw = await account.signTransaction({
      to: account.address,
      value: 1n,
      nonce,
      gas: 21_000n,
      chainId: 196,
      type: 'eip1559',
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 10n ** 9n,
    })
    // The nonce may be used or far ahead by now, because the chain may have gone back.
    await request('eth_sendRawTransaction', raw).catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function control(at: number): Promise<void> {
  const [method, params] = CONTROLS[below(CONTROLS.length)]!
  const given = params()
  const startedAt = performance.now()
  const done = await request(method, ...given).catch((error: Error) => error)
  const ms = performance.now() - startedAt
  const said = `control ${at} of seed ${SEED}, ${method} ${JSON.stringify(given)}`
  if (done instanceof Error) expect(done.message, said).toMatch(REFUSED)
  expect(ms, said).toBeLessThan(TIMEOUT_MS)
  if (method === 'evm_snapshot') snapshots.push(done)
}

/** Checks that each block is the child of the one below, and that its contents are found in it. */
async function checkChain(): Promise<void> {
  const latest = await numberOf('latest')
  let above: Block | undefined
  for (let number = latest; number >= 0; number--) {
    const block = (await request(
      'eth_getBlockByNumber',
      `0x${number.toString(16)}`,
      false,
    )) as Block
    if (above !== undefined) expect(block.hash).toBe(above.parentHash)
    const receipts = (await request('eth_getBlockReceipts', block.number)) as {
      readonly transactionHash: Hex
      readonly blockHash: Hex
    }[]
    expect(receipts.map(({ transactionHash }) => transactionHash)).toEqual(block.transactions)
    expect(new Set([block.hash, ...receipts.map(({ blockHash }) => blockHash)]).size).toBe(1)
    above = block
  }
}

test(`the chain stays valid over ${STEPS} controls in a random order`, {
  timeout: 600_000 + STEPS * 5_000,
}, async () => {
  const over = new AbortController()
  const sending = KEYS.map((_, which) => sendAll(which, over.signal))
  for (let at = 0; at < STEPS; at++) {
    await control(at)
    await new Promise((resolve) => setTimeout(resolve, below(400)))
  }
  over.abort()
  await Promise.all(sending)
  await request('dev_resume')
  const head = await numberOf('latest')
  await expect.poll(() => numberOf('latest')).toBeGreaterThan(head + 2)
  // Every executable transaction is executed: none waits for a removed chain.
  await expect
    .poll(async () => ((await request('txpool_status')) as { readonly pending: Hex }).pending, {
      timeout: TIMEOUT_MS / 2,
      message: `transactions wait after the controls of seed ${SEED}`,
    })
    .toBe('0x0')
  for (const which of KEYS.keys()) {
    const client = opClient(node.url, which)
    const { address } = client.account
    // A chain that went back makes many blocks at once. The pool's transactions may still be in the
    // block in progress.
    const nonce = Number(await request('eth_getTransactionCount', address, 'pending'))
    const hash = await client.sendTransaction({ to: address, value: 1n, nonce, gas: 21_000n })
    await client.waitForTransactionReceipt({ hash, timeout: TIMEOUT_MS })
  }
  await checkChain()
})
