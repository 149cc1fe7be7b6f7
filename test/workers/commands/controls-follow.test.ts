/** A follower of a development chain survives its broken promises, and reaches the chain's head. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, hexToNumber } from 'viem'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WireForm } from '../../../engine/flashblocks/codec.ts'
import { fresh } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'

let folder: string
let node: RunningNode
let follower: RunningNode
let client: ReturnType<typeof opClient>
type Block = { readonly hash: Hex; readonly number: Hex } | null
const on = (of: RunningNode, method: string, ...params: readonly unknown[]) =>
  call(`${of.url}/flashblocks`, method, params)
const hashOf = async (of: RunningNode, tag: string) =>
  ((await on(of, 'eth_getBlockByNumber', tag, false)) as Block)?.hash
const headOf = async (of: RunningNode) =>
  hexToNumber((await call(of.url, 'eth_blockNumber')) as Hex)
const receiptOf = (of: RunningNode, hash: Hex) => on(of, 'eth_getTransactionReceipt', hash)

/** Sends a transaction and waits until both nodes have preconfirmed it. */
async function preconfirmed(): Promise<Hex> {
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  for (const each of [node, follower])
    await expect.poll(() => receiptOf(each, hash)).toMatchObject({ status: '0x1' })
  return hash
}
/** Checks that both nodes have the same block, some blocks later. */
async function agree(): Promise<void> {
  const number = (await headOf(node)) + 1
  await expect.poll(() => headOf(node)).toBeGreaterThan(number)
  const tag = `0x${number.toString(16)}`
  const hash = await hashOf(node, tag)
  await expect.poll(() => hashOf(follower, tag)).toBe(hash)
}

describe.each<WireForm>(['xlayer', 'subblocks'])('a follower of a feed in the form %s', (form) => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'controls-'))
    node = await startNode([
      ...['--datadir', join(folder, 'data'), '--rate-limit', 'off', '--feed-form', form],
    ])
    client = opClient(node.url)
    const feed = `${node.url.replace('http', 'ws')}/feed`
    const source = ['--upstream', node.url, '--feed', feed, '--state', 'whole']
    const chain = ['--chain', join(folder, 'data', 'genesis.json'), '--ephemeral']
    follower = await startNode([...chain, ...source, '--rate-limit', 'off'], 'follow')
  })
  afterAll(async () => {
    expect(await follower.stop()).toBe(0)
    expect(await node.stop()).toBe(0)
    rmSync(folder, { recursive: true })
  })

  test.each([
    ['dev_reorg', { depth: 0 }],
    ['dev_reorg', { depth: 1 }],
    ['dev_reorg', { depth: 3 }],
    ['dev_reorg', { depth: 8 }],
  ])('agrees with the chain after %s %o', async (method, options) => {
    const { depth } = options
    await expect.poll(() => headOf(node)).toBeGreaterThan(depth + 2)
    const hash = await preconfirmed()
    // A reorg of blocks needs its own block; otherwise the block in progress is enough.
    if (depth > 0) await on(node, 'dev_seal')
    const { dropped } = (await on(node, method, options)) as { readonly dropped: readonly Hex[] }
    await agree()
    const isDropped = dropped.includes(hash)
    if (depth > 0) expect(isDropped).toBe(true)
    for (const each of [node, follower])
      if (isDropped) expect(await receiptOf(each, hash)).toBe(null)
  })

  test('agrees with the chain after a gap and silence', async () => {
    await preconfirmed()
    await on(node, 'dev_gap')
    await agree()
    await on(node, 'dev_silence', { ms: 1_500 })
    await agree()
    await preconfirmed()
  })

  test.each(['dev_pause', 'evm_mine', 'anvil_setBalance', 'hardhat_mine'])(
    'refuses %s',
    async (method) => {
      await expect(on(follower, method)).rejects.toThrow(
        `${method}: -32601 the method ${method} is not available: only flashnode dev has dev_, evm_, anvil_ and hardhat_ methods`,
      )
    },
  )
})
