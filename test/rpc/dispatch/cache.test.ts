/** A response in the result cache lives as long as the head that it was read from. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { overloaded } from '../../../rpc/core/errors.ts'
import type { PoolCall, PoolReply } from '../../../rpc/core/executor.ts'
import { createResultCache } from '../../../rpc/dispatch/cache.ts'
import type { MemoryBlock } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'

/** The code returns PREVRANDAO, which a block of the memory chain gets from its salt. */
const CALL = { data: '0x445f5260205ff3' }

/** Opens a chain with block 1 complete and block 2 in progress. */
function opened() {
  const rpc = testRpc()
  const { memory } = rpc
  const first = memory.make(memory.genesis, { salt: 0x10 })
  const pending = (index: number) => memory.make(first, { salt: 0x20 + index, index })
  memory.publish({ canonical: memory.genesis, complete: first, pending: pending(0) })
  const runs = async (at: unknown) => {
    const before = rpc.poolCalls.length
    const { result, error } = await rpc.request('eth_call', [CALL, at])
    const response = error?.message ?? (result as string).slice(-2)
    return [response, rpc.poolCalls.length - before] as const
  }
  return { rpc, memory, first, pending, runs }
}
const hashOf = ({ hash }: MemoryBlock) => bytesToHex(hash)

describe('a cached response', () => {
  test.each([
    ['latest', () => 'latest', '10'],
    ['a height below latest', () => '0x0', '00'],
    ['the height of latest', () => '0x1', '10'],
    ['the hash of latest', hashOf, '10'],
  ] as const)('at %s stays valid after a flashblock', async (_, selector, response) => {
    const { memory, first, pending, runs } = opened()
    const at = selector(first)
    expect(await runs(at)).toEqual([response, 1])
    expect(await runs(at)).toEqual([response, 0])
    memory.publish({ canonical: memory.genesis, complete: first, pending: pending(1) })
    expect(await runs(at)).toEqual([response, 0])
    memory.publish({ canonical: first, complete: first, pending: pending(2) })
    expect(await runs(at)).toEqual([response, 0])
  })

  test.each(['pending', '0x2'])('at %s becomes invalid after a flashblock', async (at) => {
    const { memory, first, pending, runs } = opened()
    expect(await runs(at)).toEqual(['20', 1])
    expect(await runs(at)).toEqual(['20', 0])
    memory.publish({ canonical: memory.genesis, complete: first, pending: pending(1) })
    expect(await runs(at)).toEqual(['21', 1])
  })

  test('for a missing block becomes invalid when that block arrives', async () => {
    const { memory, first, pending, runs } = opened()
    const next = pending(1)
    const absent = ['header for hash not found', 1]
    expect(await runs(hashOf(next))).toEqual(absent)
    expect(await runs('0x3')).toEqual(['header not found', 1])
    memory.publish({ canonical: first, pending: next })
    expect(await runs(hashOf(next))).toEqual(['21', 1])
    memory.publish({ canonical: first, pending: pending(2) })
    expect(await runs(hashOf(next))).toEqual(absent)
  })

  test.each([
    // Only the newest response that follows a head is cached.
    ['latest', 1],
    ['0x1', 0],
    ['safe', 0],
  ])('at %s becomes invalid after a reorg', async (at, repeated) => {
    const { memory, first, runs } = opened()
    memory.publish({ canonical: first })
    expect(await runs(at)).toEqual(['10', 1])
    memory.publish({ canonical: memory.make(memory.genesis, { salt: 0x11 }) })
    expect(await runs(at)).toEqual(['11', 1])
    memory.publish({ canonical: first })
    expect(await runs(at)).toEqual(['10', repeated])
  })

  test('for a block hash becomes invalid when that block leaves the chain', async () => {
    const { memory, first, runs } = opened()
    memory.publish({ canonical: first })
    expect(await runs(hashOf(first))).toEqual(['10', 1])
    memory.publish({ canonical: memory.make(memory.genesis, { salt: 0x11 }) })
    expect(await runs(hashOf(first))).toEqual(['header for hash not found', 1])
  })

  test('for one endpoint is not given on the other', async () => {
    const { rpc } = opened()
    const request = async (endpoint: 'standard' | 'flashblocks') =>
      ((await rpc.request('eth_call', [CALL, 'latest'], { endpoint })).result as string).slice(-2)
    expect([await request('flashblocks'), await request('standard')]).toEqual(['10', '00'])
  })

  test.each([
    [{}, 1],
    [{ toBlock: 'latest' }, 0],
    [{ fromBlock: '0x0', toBlock: '0x1' }, 0],
    [{ fromBlock: 'earliest', toBlock: 'latest' }, 1],
    [{ fromBlock: 'latest', toBlock: '0x2' }, 1],
    [{ fromBlock: 'pending', toBlock: 'latest' }, 1],
  ])('to a log query %j runs %i more times after a flashblock', async (query, more) => {
    const { rpc, memory, first, pending } = opened()
    const request = async () => {
      const before = rpc.poolCalls.length
      await rpc.request('eth_getLogs', [query])
      return rpc.poolCalls.length - before
    }
    expect(await request()).toBe(1)
    expect(await request()).toBe(0)
    memory.publish({ canonical: memory.genesis, complete: first, pending: pending(1) })
    expect(await request()).toBe(more)
  })
})

test.each([
  ['a short call', 2_000, [1, 0, 0]],
  ['a multicall of 50 balances', 23_000, [1, 1, 0]],
  ['calldata longer than the bytes of one point', 66_000, [1, 1, 1]],
])(
  '%s with %i characters of calldata runs %j times in successive requests',
  async (_name, characters, runs) => {
    const { rpc } = opened()
    const to = `0x${'04'.padStart(40, '0')}`
    const call = { to, data: `0x${'ab'.repeat(characters / 2)}`, gas: '0x2000000' }
    const request = async () => {
      const before = rpc.poolCalls.length
      expect((await rpc.request('eth_call', [call, 'latest'])).result).toBe(call.data)
      return rpc.poolCalls.length - before
    }
    for (const run of runs) expect(await request()).toBe(run)
  },
)

describe('equal calls', () => {
  /** Makes an executor that blocks calls before they reach a worker. */
  function blocked() {
    const blocker = Promise.withResolvers<void>()
    const calls: PoolCall[] = []
    const rpc = testRpc({
      executor: (local) => ({
        async execute(call) {
          calls.push(call)
          await blocker.promise
          return local.execute(call)
        },
      }),
    })
    const { memory } = rpc
    const first = memory.make(memory.genesis, { salt: 0x10 })
    memory.publish({ canonical: first })
    const item = { jsonrpc: '2.0', id: 1, method: 'eth_call', params: [CALL, 'latest'] }
    const responsesOf = async (count: number) => {
      const body = count === 1 ? item : Array.from({ length: count }, () => item)
      const { text } = await rpc.send(JSON.stringify(body))
      return [JSON.parse(text!) as { result: string }].flat().map(({ result }) => result.slice(-2))
    }
    return { rpc, memory, first, blocker, calls, responsesOf }
  }

  test('of a batch, other requests and the next flashblock run once', async () => {
    const { memory, first, blocker, calls, responsesOf } = blocked()
    const requested = [responsesOf(1), responsesOf(2), responsesOf(3)]
    memory.publish({ canonical: first, pending: memory.make(first, { index: 0 }) })
    requested.push(responsesOf(1), responsesOf(2))
    blocker.resolve()
    expect((await Promise.all(requested)).flat()).toEqual(Array.from({ length: 9 }, () => '10'))
    expect(calls).toHaveLength(1)
    expect([await responsesOf(1), calls.length]).toEqual([['10'], 1])
  })

  test('of another address are not refused when the first caller uses up its share', async () => {
    const first = Promise.withResolvers<PoolReply>()
    const calls: PoolCall[] = []
    const { request } = testRpc({
      executor: (local) => ({
        execute: (call) => (calls.push(call) === 1 ? first.promise : local.execute(call)),
      }),
    })
    const from = (address: string) => request('eth_call', [CALL, 'latest'], { address })
    const [busy, same, other] = [from('192.0.2.1'), from('192.0.2.1'), from('192.0.2.2')]
    first.resolve({ error: overloaded('2000 calls wait', 200).toObject() })
    expect(await busy).toMatchObject({ error: { code: -32005 } })
    expect(await same).toMatchObject({ error: { code: -32005 } })
    expect(await other).toMatchObject({ result: expect.any(String) })
    expect(calls.map(({ client }) => client.address)).toEqual(['192.0.2.1', '192.0.2.2'])
  })

  test('do not share a response from a newer snapshot with an older one', async () => {
    const { memory, first, blocker, calls, responsesOf } = blocked()
    const single = responsesOf(1)
    const batch = responsesOf(2)
    memory.publish({ canonical: memory.make(first, { salt: 0x11 }) })
    blocker.resolve()
    // The chain in maps has released the batch's snapshot, so the batch starts again.
    expect(await single).toEqual(['11'])
    expect(await batch).toEqual(['11', '11'])
    const runs = calls.length
    memory.publish({ canonical: first })
    expect(await responsesOf(1)).toEqual(['10'])
    expect(calls.length).toBe(runs + 1)
  })
})

describe('the result cache', () => {
  const reply = { result: '"0x12345"' }

  test('evicts the oldest items above its maximum number', () => {
    const cache = createResultCache({ items: 2, bytes: 1_000 })
    for (const key of ['a', 'b', 'a', 'c']) cache.set(key, reply)
    expect(['a', 'b', 'c'].map((key) => cache.get(key))).toEqual([undefined, reply, reply])
    expect(cache.stats).toMatchObject({ hits: 2, misses: 1, items: 2, bytes: 20 })
  })

  test('evicts the oldest items above its maximum size', () => {
    const cache = createResultCache({ items: 10, bytes: 25 })
    for (const key of ['a', 'b', 'c']) cache.set(key, reply)
    expect(cache.stats).toMatchObject({ items: 2, bytes: 20 })
    cache.set('long', { result: 'x'.repeat(22) })
    expect(cache.stats).toMatchObject({ items: 2, bytes: 20 })
    cache.set('long', { result: 'x'.repeat(21) })
    expect(cache.stats).toMatchObject({ items: 1, bytes: 25 })
  })
})
