import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Client } from '../../../rpc/core/client.ts'
import { CONTRACT, execute, filled, log, TOPIC, transfer } from '../../fixtures/executed.ts'
import type { MemoryBlock } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { type Json, subscribed, testSubscriber } from '../../fixtures/subscriber.ts'

type Rpc = ReturnType<typeof testRpc>
let nonce = 0n

/** Makes a block with this many logs, one transaction each. */
function blockOn(rpc: Rpc, parent: MemoryBlock, logs = 1, salt = 0): MemoryBlock {
  const transactions = Array.from({ length: logs }, () => transfer(nonce++))
  return rpc.memory.make(parent, {
    executed: execute(
      transactions,
      transactions.map(() => [log()]),
    ),
    salt,
  })
}
function grow(rpc: Rpc, logs = 1): MemoryBlock {
  const block = blockOn(rpc, rpc.memory.heads.canonical, logs)
  rpc.memory.publish({ canonical: block })
  return block
}
const hashOf = ({ hash }: MemoryBlock) => bytesToHex(hash)
const created = async (
  rpc: Rpc,
  method: string,
  params: unknown[] = [],
  client: Partial<Client> = {},
) => (await rpc.request(method, params, client)).result as string
const changes = async (rpc: Rpc, id: string) =>
  (await rpc.request('eth_getFilterChanges', [id])).result as unknown[]
const locations = (logs: unknown) =>
  (logs as Json[]).map(
    (one) => `${one['blockNumber']}/${one['logIndex']}${one['removed'] ? ' removed' : ''}`,
  )

describe('a filter', () => {
  test('returns each block after its creation once, in order', async () => {
    const rpc = testRpc()
    grow(rpc)
    const id = await created(rpc, 'eth_newBlockFilter')
    expect(await changes(rpc, id)).toEqual([])
    const [one, two] = [grow(rpc), grow(rpc)]
    expect(await changes(rpc, id)).toEqual([hashOf(one), hashOf(two)])
    expect(await changes(rpc, id)).toEqual([])
  })
  test('ignores a block that is not canonical yet, on either endpoint', async () => {
    const rpc = testRpc()
    const id = await created(rpc, 'eth_newBlockFilter')
    const { canonical } = rpc.memory.heads
    const block = blockOn(rpc, canonical)
    rpc.memory.publish({ canonical, complete: block })
    expect(await changes(rpc, id)).toEqual([])
    rpc.memory.publish({ canonical: block })
    expect(await changes(rpc, id)).toEqual([hashOf(block)])
  })
  test('waits briefly during a poll for a complete block to become canonical', async () => {
    const rpc = testRpc()
    const id = await created(rpc, 'eth_newBlockFilter')
    const { canonical } = rpc.memory.heads
    const block = blockOn(rpc, canonical)
    rpc.memory.publish({ canonical, complete: block })
    const polled = changes(rpc, id)
    const elsewhere = await rpc.request('eth_getFilterChanges', [id], { endpoint: 'standard' })
    expect(elsewhere.result).toEqual([])
    expect(rpc.memory.leaks()).toBe(0)
    rpc.memory.publish({ canonical: block })
    expect(await polled).toEqual([hashOf(block)])
  })
  test('returns matching logs, and after a reorg removed logs, newest first', async () => {
    const rpc = testRpc()
    const id = await created(rpc, 'eth_newFilter', [
      { address: bytesToHex(CONTRACT), topics: [bytesToHex(TOPIC)] },
    ])
    const other = await created(rpc, 'eth_newFilter', [{ topics: [bytesToHex(filled(32, 1))] }])
    const base = grow(rpc, 2)
    grow(rpc)
    expect(locations(await changes(rpc, id))).toEqual(['0x1/0x0', '0x1/0x1', '0x2/0x0'])
    const branch = blockOn(rpc, base, 1, 1)
    rpc.memory.publish({ canonical: blockOn(rpc, branch, 0, 1) })
    expect(locations(await changes(rpc, id))).toEqual(['0x2/0x0 removed', '0x2/0x0'])
    const root = rpc.memory.genesis
    rpc.memory.publish({ canonical: blockOn(rpc, root, 0, 2) })
    expect(locations(await changes(rpc, id))).toEqual([
      '0x2/0x0 removed',
      '0x1/0x1 removed',
      '0x1/0x0 removed',
    ])
    expect(await changes(rpc, other)).toEqual([])
  })
  test('returns only logs within its block range', async () => {
    const rpc = testRpc()
    const id = await created(rpc, 'eth_newFilter', [{ fromBlock: '0x2', toBlock: '0x3' }])
    for (let at = 0; at < 4; at++) grow(rpc)
    expect(locations(await changes(rpc, id))).toEqual(['0x2/0x0', '0x3/0x0'])
  })
  test('returns all of its logs on request, from before and after its creation', async () => {
    const rpc = testRpc()
    grow(rpc)
    const id = await created(rpc, 'eth_newFilter', [
      { fromBlock: '0x0', address: bytesToHex(CONTRACT) },
    ])
    grow(rpc)
    expect(locations((await rpc.request('eth_getFilterLogs', [id])).result)).toEqual([
      '0x1/0x0',
      '0x2/0x0',
    ])
    expect(locations(await changes(rpc, id))).toEqual(['0x2/0x0'])
    const blocks = await created(rpc, 'eth_newBlockFilter')
    expect((await rpc.request('eth_getFilterLogs', [blocks])).error?.message).toBe(
      'filter not found',
    )
  })
  test('is checked against the limits again when eth_getFilterLogs runs it', async () => {
    const rpc = testRpc({ limits: { logsBlocks: 1 } })
    const id = await created(rpc, 'eth_newFilter', [{ fromBlock: '0x0' }])
    grow(rpc)
    expect((await rpc.request('eth_getFilterLogs', [id])).error?.code).toBe(-32005)
  })
  test('returns pooled transactions, as hashes or as objects', async () => {
    const rpc = testRpc()
    const hashes = await created(rpc, 'eth_newPendingTransactionFilter')
    const full = await created(rpc, 'eth_newPendingTransactionFilter', [true])
    const transaction = transfer(nonce++)
    await rpc.request('eth_sendRawTransaction', [bytesToHex(transaction.raw)])
    const hash = bytesToHex(transaction.hash)
    expect(await changes(rpc, hashes)).toEqual([hash])
    expect(await changes(rpc, full)).toEqual([expect.objectContaining({ hash, blockHash: null })])
  })
  test('ends on eth_uninstallFilter, or when nobody polls it', async () => {
    const rpc = testRpc()
    const [one, two, three] = [
      await created(rpc, 'eth_newBlockFilter'),
      await created(rpc, 'eth_newBlockFilter'),
      await created(rpc, 'eth_newBlockFilter'),
    ]
    expect((await rpc.request('eth_uninstallFilter', [one])).result).toBe(true)
    expect((await rpc.request('eth_uninstallFilter', [one])).result).toBe(false)
    expect((await rpc.request('eth_getFilterChanges', [one])).error?.code).toBe(-32000)
    rpc.advance(200_000)
    await changes(rpc, two)
    rpc.advance(200_000)
    grow(rpc)
    expect(rpc.stats().filters).toBe(1)
    expect((await rpc.request('eth_getFilterChanges', [three])).error?.message).toBe(
      'filter not found',
    )
    expect(await changes(rpc, two)).toHaveLength(1)
  })
  test('is refused above the limit of its client until another one is removed', async () => {
    const rpc = testRpc({ limits: { filtersPerClient: 2 } })
    const id = await created(rpc, 'eth_newBlockFilter')
    await created(rpc, 'eth_newFilter', [{}])
    const third = await rpc.request('eth_newBlockFilter')
    expect(third.error).toMatchObject({ code: -32005, data: { reason: 'cap', limit: 2 } })
    expect(await created(rpc, 'eth_newBlockFilter', [], { address: '10.0.0.9' })).toMatch(/^0x/)
    await rpc.request('eth_uninstallFilter', [id])
    expect(await created(rpc, 'eth_newBlockFilter')).toMatch(/^0x/)
  })
  test.each([{ filterItems: 2 }, { filterBytes: 140 }])(
    'ends when it overflows, instead of leaving a gap (%j)',
    async (limits) => {
      const rpc = testRpc({ limits })
      const id = await created(rpc, 'eth_newBlockFilter')
      for (let at = 0; at < 2; at++) grow(rpc)
      expect(rpc.stats().filters).toBe(1)
      grow(rpc)
      expect((await rpc.request('eth_getFilterChanges', [id])).error?.message).toBe(
        'filter not found',
      )
      expect(rpc.stats()).toMatchObject({ filters: 0, filterBytes: 0 })
    },
  )
  test('with too many addresses is refused', async () => {
    const rpc = testRpc()
    expect(
      (await rpc.request('eth_newFilter', [{ address: Array(1_001).fill(bytesToHex(CONTRACT)) }]))
        .error?.code,
    ).toBe(-32000)
  })
  test('returns all blocks when the chain advances by many at once', async () => {
    const rpc = testRpc()
    const id = await created(rpc, 'eth_newBlockFilter')
    let tip = rpc.memory.genesis
    const hashes = Array.from({ length: 200 }, () => {
      tip = blockOn(rpc, tip, 0)
      return hashOf(tip)
    })
    rpc.memory.publish({ canonical: tip })
    const seen: unknown[] = []
    while (seen.length < hashes.length) {
      seen.push(...(await changes(rpc, id)))
      await new Promise(setImmediate)
    }
    expect(seen).toEqual(hashes)
  })
})

describe('a subscription', () => {
  test('emits canonical heads and logs once, and the removed logs of a reorg', async () => {
    const rpc = testRpc()
    const one = testSubscriber()
    const { of } = one
    const heads = await subscribed(rpc, one, 'newHeads')
    const logs = await subscribed(rpc, one, 'logs', { address: bytesToHex(CONTRACT) })
    const none = await subscribed(rpc, one, 'logs', { address: bytesToHex(filled(20, 1)) })
    const base = grow(rpc)
    const lost = grow(rpc)
    const branch = blockOn(rpc, base, 2, 1)
    rpc.memory.publish({ canonical: branch })
    const numbers = of(heads).map((head) => [(head as Json)['number'], (head as Json)['hash']])
    expect(numbers).toEqual([
      ['0x1', hashOf(base)],
      ['0x2', hashOf(lost)],
      ['0x2', hashOf(branch)],
    ])
    expect(locations(of(logs))).toEqual([
      '0x1/0x0',
      '0x2/0x0',
      '0x2/0x0 removed',
      '0x2/0x0',
      '0x2/0x1',
    ])
    expect((of(logs)[2] as Json)['blockHash']).toBe(hashOf(lost))
    expect(of(none)).toEqual([])
  })
  test('to newHeads emits no pending block', async () => {
    const rpc = testRpc()
    const one = testSubscriber()
    const { sent } = one
    await subscribed(rpc, one, 'newHeads')
    const { canonical } = rpc.memory.heads
    rpc.memory.publish({ canonical, pending: blockOn(rpc, canonical) })
    expect(sent).toEqual([])
  })
  test('gets its id before its first event', async () => {
    const rpc = testRpc()
    const one = testSubscriber()
    const { of, sent } = one
    const request = rpc.request('eth_subscribe', ['newHeads'], one.client)
    await Promise.resolve()
    const block = grow(rpc)
    const id = (await request).result
    const before = sent.length
    await new Promise(setImmediate)
    expect(before).toBe(0)
    expect(of(id).length === 0 || (of(id)[0] as Json)['hash'] === hashOf(block)).toBe(true)
    const next = grow(rpc)
    expect((of(id).at(-1) as Json)['hash']).toBe(hashOf(next))
  })
  test('emits pooled transactions, as hashes or as objects', async () => {
    const rpc = testRpc()
    const one = testSubscriber()
    const { of } = one
    const hashes = await subscribed(rpc, one, 'newPendingTransactions')
    const full = await subscribed(rpc, one, 'newPendingTransactions', true)
    const transaction = transfer(nonce++)
    await rpc.request('eth_sendRawTransaction', [bytesToHex(transaction.raw)])
    const hash = bytesToHex(transaction.hash)
    expect(of(hashes)).toEqual([hash])
    expect(of(full)).toEqual([expect.objectContaining({ hash, nonce: expect.any(String) })])
  })
  test('ends once, on the request of its own connection only', async () => {
    const rpc = testRpc()
    const [mine, foreign] = [testSubscriber(), testSubscriber()]
    const id = await subscribed(rpc, mine, 'newHeads')
    const request = async ({ client }: { client: Client }) =>
      rpc.request('eth_unsubscribe', [id], client)
    expect((await request(foreign)).error).toEqual({
      code: -32000,
      message: 'subscription not found',
    })
    expect((await request(mine)).result).toBe(true)
    expect((await request(mine)).error?.code).toBe(-32000)
    grow(rpc)
    expect(mine.sent).toEqual([])
  })
  test('ends with its connection', async () => {
    const rpc = testRpc()
    const one = testSubscriber()
    const { sent, close } = one
    await subscribed(rpc, one, 'newHeads')
    await subscribed(rpc, one, 'logs', {})
    close()
    expect(rpc.stats().subscriptions).toBe(0)
    grow(rpc)
    expect(sent).toEqual([])
    expect((await rpc.request('eth_subscribe', ['newHeads'], one.client)).error?.code).toBe(-32601)
  })
  test('is refused above the limit of its connection until another one ends', async () => {
    const rpc = testRpc({ limits: { subscriptionsPerConnection: 1 } })
    const one = testSubscriber()
    const id = await subscribed(rpc, one, 'syncing')
    expect((await rpc.request('eth_subscribe', ['newHeads'], one.client)).error).toMatchObject({
      code: -32005,
      data: { limit: 1 },
    })
    await rpc.request('eth_unsubscribe', [id], one.client)
    expect(await subscribed(rpc, one, 'newHeads')).toMatch(/^0x/)
  })
  const refused: [params: unknown[], message: string][] = [
    [['nonsense'], 'no "nonsense" subscription in eth namespace'],
    [['newheads'], 'no "newheads" subscription in eth namespace'],
    [[''], 'no "" subscription in eth namespace'],
    [['constructor'], 'no "constructor" subscription in eth namespace'],
    [['__proto__'], 'no "__proto__" subscription in eth namespace'],
    [[], 'expected subscription name as first argument'],
    [[7], 'expected subscription name as first argument'],
    [['logs'], 'missing value for required argument 1'],
    [['newHeads', true], 'too many arguments, want at most 1'],
    [['newHeads', null], 'too many arguments, want at most 1'],
    [['newHeads', { address: bytesToHex(CONTRACT) }], 'too many arguments, want at most 1'],
    [['newHeads', {}, {}], 'too many arguments, want at most 1'],
    [['syncing', {}], 'too many arguments, want at most 1'],
    [['logs', {}, {}], 'too many arguments, want at most 2'],
    [['logs', {}, null], 'too many arguments, want at most 2'],
    [['newPendingTransactions', true, {}], 'too many arguments, want at most 2'],
    [['newHeads', {}, {}, {}], 'too many arguments, want at most 3'],
    [
      ['logs', { address: '0x12' }],
      'invalid argument 1: invalid address: hex has invalid length 1 after decoding; expected 20 for address',
    ],
    [
      ['newPendingTransactions', 'yes'],
      'invalid argument 1: json: cannot unmarshal string into Go value of type bool',
    ],
  ]
  test.each(refused)('with the parameters %j is refused', async (params, message) => {
    const reply = await testRpc().request('eth_subscribe', params, testSubscriber().client)
    expect(reply.error).toEqual({ code: -32602, message })
  })
  test('that starts after another one ended does not emit blocks from in between', async () => {
    const rpc = testRpc()
    const one = testSubscriber()
    const { of } = one
    const first = await subscribed(rpc, one, 'newHeads')
    await rpc.request('eth_unsubscribe', [first], one.client)
    grow(rpc)
    const second = await subscribed(rpc, one, 'newHeads')
    const block = grow(rpc)
    expect(of(second)).toEqual([expect.objectContaining({ hash: hashOf(block) })])
  })
})
