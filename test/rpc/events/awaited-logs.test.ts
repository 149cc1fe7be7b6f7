/**
 * The block ranges of log filters and subscriptions follow go-ethereum's rules (eth/filters:
 * SubscribeLogs).
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { execute, filled, log, transfer } from '../../fixtures/executed.ts'
import type { MemoryBlock } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { type Json, subscribed, testSubscriber } from '../../fixtures/subscriber.ts'

type Rpc = ReturnType<typeof testRpc>
let nonce = 0n
function blockOn(rpc: Rpc, parent: MemoryBlock, salt = 0): MemoryBlock {
  const executed = execute([transfer(nonce++)], [[log()]])
  return rpc.memory.make(parent, { executed, salt })
}
function grow(rpc: Rpc): MemoryBlock {
  const block = blockOn(rpc, rpc.memory.heads.canonical)
  rpc.memory.publish({ canonical: block })
  return block
}
const numbers = (logs: unknown) =>
  (logs as Json[]).map((one) => `${Number(one['blockNumber'])}${one['removed'] ? ' removed' : ''}`)

describe.each(['standard', 'flashblocks'] as const)('log ranges on the %s endpoint', (endpoint) => {
  const INVALID = 'invalid block range params'
  const PENDING = 'pending logs are not supported'
  const ranges: [range: object, emitted: readonly string[] | string][] = [
    [{}, ['3', '4', '5']],
    [{ fromBlock: null, toBlock: null }, ['3', '4', '5']],
    [{ fromBlock: 'latest', toBlock: 'latest' }, ['3', '4', '5']],
    [{ fromBlock: 'latest' }, ['3', '4', '5']],
    [{ toBlock: 'latest' }, ['3', '4', '5']],
    [{ fromBlock: '0x4' }, ['4', '5']],
    [{ fromBlock: '0x4', toBlock: 'latest' }, ['4', '5']],
    [{ fromBlock: '0x4', toBlock: '0x4' }, ['4']],
    [{ fromBlock: 'earliest', toBlock: '0x3' }, ['3']],
    [{ fromBlock: 'earliest' }, ['3', '4', '5']],
    [{ fromBlock: '0x0', toBlock: '0x1' }, []],
    [{ fromBlock: '0xffffff' }, []],
    [{ blockHash: bytesToHex(filled(32, 1)) }, ['3', '4', '5']],
    [{ fromBlock: '0x5', toBlock: '0x2' }, INVALID],
    [{ toBlock: '0x5' }, INVALID],
    [{ fromBlock: 'latest', toBlock: '0x5' }, INVALID],
    [{ fromBlock: '0x1', toBlock: 'earliest' }, INVALID],
    [{ toBlock: 'earliest' }, INVALID],
    [{ fromBlock: 'safe' }, INVALID],
    [{ fromBlock: 'finalized' }, INVALID],
    [{ fromBlock: '0x1', toBlock: 'safe' }, INVALID],
    [{ fromBlock: '0x1', toBlock: 'finalized' }, INVALID],
    [{ fromBlock: 'pending' }, PENDING],
    [{ toBlock: 'pending' }, PENDING],
    [{ fromBlock: '0x1', toBlock: 'pending' }, PENDING],
    [{ fromBlock: 'pending', toBlock: 'pending' }, PENDING],
    [
      { fromBlock: { flashblock: { number: 1, index: 0 } } },
      'a range of future logs starts and ends at blocks, not at a flashblock',
    ],
  ]
  test.each(ranges)(
    'follow the geth rules in eth_newFilter and logs: %j',
    async (range, emitted) => {
      const rpc = testRpc()
      const one = testSubscriber(endpoint)
      for (let at = 0; at < 2; at++) grow(rpc)
      const made = await rpc.request('eth_newFilter', [range], { endpoint })
      const { error } = await rpc.request('eth_subscribe', ['logs', range], one.client)
      if (typeof emitted === 'string') {
        expect([made.error, error]).toEqual(
          [emitted, emitted].map((message) => ({ code: -32602, message })),
        )
        expect(rpc.stats()).toMatchObject({ filters: 0, subscriptions: 0 })
        return
      }
      const id = await subscribed(rpc, one, 'logs', range)
      for (let at = 0; at < 3; at++) grow(rpc)
      const changes = await rpc.request('eth_getFilterChanges', [made.result], { endpoint })
      expect(numbers(changes.result)).toEqual(emitted)
      expect(numbers(one.of(id))).toEqual(emitted)
    },
  )
  test('apply to removed and new logs of a reorg', async () => {
    const rpc = testRpc()
    const one = testSubscriber(endpoint)
    const id = await subscribed(rpc, one, 'logs', { fromBlock: '0x2', toBlock: '0x2' })
    const base = grow(rpc)
    for (let at = 0; at < 2; at++) grow(rpc)
    const branch = blockOn(rpc, base, 1)
    rpc.memory.publish({ canonical: blockOn(rpc, branch, 1) })
    expect(numbers(one.of(id))).toEqual(['2', '2 removed', '2'])
  })
})
