/** Controls in a random order under a load of transactions: each is answered in time, and the chain is whole and goes on. */
import type { Hex } from 'viem'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { accountOf, opClient } from '../../fixtures/op-client.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { mulberry32 } from '../../kit/run-options.ts'

const SEED = Number(process.env['CONTROLS_SEED'] ?? Date.now() % 1_000_000)
/** More by hand: a fault here may be one in hundreds. */
const STEPS = Number(process.env['CONTROLS_STEPS'] ?? 60)
/** A control waits for a block to become canonical, and no longer than that takes. */
const PATIENCE_MS = 60_000
const random = mulberry32(SEED)
const below = (count: number) => Math.floor(random() * count)

let node: RunningNode
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off', '--finalized-lag', '20'])
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})

const ask = (method: string, ...params: readonly unknown[]) =>
  call(`${node.url}/flashblocks`, method, params)
const numberOf = async (tag: string) =>
  Number(((await ask('eth_getBlockByNumber', tag, false)) as Block).number)
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

/** What a control may say no with: there is nothing to break, or it is too late for it. */
const REFUSED =
  /no block is in progress|has transactions|not paused|is final|not kept any more|snapshot is lost/

/** Sends one transfer after the other, with the nonce that the node says, until it is told to stop. */
async function sendAll(which: number, signal: AbortSignal): Promise<void> {
  const { account } = opClient(node.url, which)
  while (!signal.aborted) {
    const nonce = Number(await ask('eth_getTransactionCount', account.address, 'pending'))
    const raw = await account.signTransaction({
      ...{ to: account.address, value: 1n, nonce, gas: 21_000n, chainId: 196, type: 'eip1559' },
      ...{ maxFeePerGas: 10n ** 10n, maxPriorityFeePerGas: 10n ** 9n },
    })
    // Its nonce may be taken, or far ahead, by now: the chain has just gone back.
    await ask('eth_sendRawTransaction', raw).catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function control(at: number): Promise<void> {
  const [method, params] = CONTROLS[below(CONTROLS.length)]!
  const given = params()
  const startedAt = performance.now()
  const done = await ask(method, ...given).catch((error: Error) => error)
  const ms = performance.now() - startedAt
  const said = `control ${at} of seed ${SEED}, ${method} ${JSON.stringify(given)}`
  if (done instanceof Error) expect(done.message, said).toMatch(REFUSED)
  expect(ms, said).toBeLessThan(PATIENCE_MS)
  if (method === 'evm_snapshot') snapshots.push(done)
}

/** Each block is the child of the one below, and what it has is found in it. */
async function checkChain(): Promise<void> {
  const latest = await numberOf('latest')
  let above: Block | undefined
  for (let number = latest; number >= 0; number--) {
    const block = (await ask('eth_getBlockByNumber', `0x${number.toString(16)}`, false)) as Block
    if (above !== undefined) expect(block.hash).toBe(above.parentHash)
    const receipts = (await ask('eth_getBlockReceipts', block.number)) as {
      readonly transactionHash: Hex
      readonly blockHash: Hex
    }[]
    expect(receipts.map(({ transactionHash }) => transactionHash)).toEqual(block.transactions)
    expect(new Set([block.hash, ...receipts.map(({ blockHash }) => blockHash)]).size).toBe(1)
    above = block
  }
}

test(`${STEPS} controls in a random order`, { timeout: 600_000 + STEPS * 5_000 }, async () => {
  const over = new AbortController()
  const sending = KEYS.map((_, which) => sendAll(which, over.signal))
  for (let at = 0; at < STEPS; at++) {
    await control(at)
    await new Promise((resolve) => setTimeout(resolve, below(400)))
  }
  over.abort()
  await Promise.all(sending)
  await ask('dev_resume')
  const head = await numberOf('latest')
  await expect.poll(() => numberOf('latest')).toBeGreaterThan(head + 2)
  // What could be executed is: nothing waits for a chain that is gone.
  await expect
    .poll(async () => ((await ask('txpool_status')) as { readonly pending: Hex }).pending, {
      timeout: PATIENCE_MS / 2,
      message: `transactions wait after the controls of seed ${SEED}`,
    })
    .toBe('0x0')
  for (const which of KEYS.keys()) {
    const client = opClient(node.url, which)
    const { address } = client.account
    // A chain that went back makes many blocks at once: what the pool had may be in the one in progress still.
    const nonce = Number(await ask('eth_getTransactionCount', address, 'pending'))
    const hash = await client.sendTransaction({ to: address, value: 1n, nonce, gas: 21_000n })
    await client.waitForTransactionReceipt({ hash, timeout: PATIENCE_MS })
  }
  await checkChain()
})
