/** The result cache: an answer lives as long as the head it was read from, and no answer outlives what it says. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { createResultCache } from '../../../rpc/dispatch/cache.ts'
import { overloaded } from '../../../rpc/seam/errors.ts'
import type { PoolCall, PoolReply } from '../../../rpc/seam/executor.ts'
import type { MemoryBlock } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'

/** Gives PREVRANDAO, which a block of the memory chain has from its salt. */
const CALL = { data: '0x445f5260205ff3' }

/** Block 1 complete, block 2 in progress. */
function opened() {
  const rpc = testRpc()
  const { memory } = rpc
  const first = memory.make(memory.genesis, { salt: 0x10 })
  const pending = (index: number) => memory.make(first, { salt: 0x20 + index, index })
  memory.publish({ canonical: memory.genesis, complete: first, pending: pending(0) })
  const runs = async (at: unknown) => {
    const before = rpc.poolCalls.length
    const { result, error } = await rpc.ask('eth_call', [CALL, at])
    const answer = error?.message ?? (result as string).slice(-2)
    return [answer, rpc.poolCalls.length - before] as const
  }
  return { rpc, memory, first, pending, runs }
}
const hashOf = ({ hash }: MemoryBlock) => bytesToHex(hash)

describe('an answer', () => {
  test.each([
    ['latest', () => 'latest', '10'],
    ['a height below latest', () => '0x0', '00'],
    ['the height of latest', () => '0x1', '10'],
    ['the hash of latest', hashOf, '10'],
  ] as const)('at %s survives a flashblock', async (_, selector, answer) => {
    const { memory, first, pending, runs } = opened()
    const at = selector(first)
    expect(await runs(at)).toEqual([answer, 1])
    expect(await runs(at)).toEqual([answer, 0])
    memory.publish({ canonical: memory.genesis, complete: first, pending: pending(1) })
    expect(await runs(at)).toEqual([answer, 0])
    memory.publish({ canonical: first, complete: first, pending: pending(2) })
    expect(await runs(at)).toEqual([answer, 0])
  })

  test.each(['pending', '0x2'])('at %s does not', async (at) => {
    const { memory, first, pending, runs } = opened()
    expect(await runs(at)).toEqual(['20', 1])
    expect(await runs(at)).toEqual(['20', 0])
    memory.publish({ canonical: memory.genesis, complete: first, pending: pending(1) })
    expect(await runs(at)).toEqual(['21', 1])
  })

  test('that a block is not there ends when it comes', async () => {
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
    // Of an answer that follows a head, the newest alone is kept.
    ['latest', 1],
    ['0x1', 0],
    ['safe', 0],
  ])('at %s ends with a reorg', async (at, again) => {
    const { memory, first, runs } = opened()
    memory.publish({ canonical: first })
    expect(await runs(at)).toEqual(['10', 1])
    memory.publish({ canonical: memory.make(memory.genesis, { salt: 0x11 }) })
    expect(await runs(at)).toEqual(['11', 1])
    memory.publish({ canonical: first })
    expect(await runs(at)).toEqual(['10', again])
  })

  test('at the hash of a block ends when that block is on the chain no more', async () => {
    const { memory, first, runs } = opened()
    memory.publish({ canonical: first })
    expect(await runs(hashOf(first))).toEqual(['10', 1])
    memory.publish({ canonical: memory.make(memory.genesis, { salt: 0x11 }) })
    expect(await runs(hashOf(first))).toEqual(['header for hash not found', 1])
  })

  test('of one endpoint is not that of the other', async () => {
    const { rpc } = opened()
    const ask = async (endpoint: 'standard' | 'flashblocks') =>
      ((await rpc.ask('eth_call', [CALL, 'latest'], { endpoint })).result as string).slice(-2)
    expect([await ask('flashblocks'), await ask('standard')]).toEqual(['10', '00'])
  })

  test.each([
    [{}, 1],
    [{ toBlock: 'latest' }, 0],
    [{ fromBlock: '0x0', toBlock: '0x1' }, 0],
    [{ fromBlock: 'earliest', toBlock: 'latest' }, 1],
    [{ fromBlock: 'latest', toBlock: '0x2' }, 1],
    [{ fromBlock: 'pending', toBlock: 'latest' }, 1],
  ])('to a log query %j runs %i times more after a flashblock', async (query, more) => {
    const { rpc, memory, first, pending } = opened()
    const ask = async () => {
      const before = rpc.poolCalls.length
      await rpc.ask('eth_getLogs', [query])
      return rpc.poolCalls.length - before
    }
    expect(await ask()).toBe(1)
    expect(await ask()).toBe(0)
    memory.publish({ canonical: memory.genesis, complete: first, pending: pending(1) })
    expect(await ask()).toBe(more)
  })
})

test.each([
  ['a short call', 2_000, [1, 0, 0]],
  ['a multicall of 50 balances', 23_000, [1, 1, 0]],
  ['what is longer than a body of one point', 66_000, [1, 1, 1]],
])('%s is asked again: %i characters run %j times', async (_name, characters, runs) => {
  const { rpc } = opened()
  const to = `0x${'04'.padStart(40, '0')}`
  const call = { to, data: `0x${'ab'.repeat(characters / 2)}`, gas: '0x2000000' }
  const ask = async () => {
    const before = rpc.poolCalls.length
    expect((await rpc.ask('eth_call', [call, 'latest'])).result).toBe(call.data)
    return rpc.poolCalls.length - before
  }
  for (const run of runs) expect(await ask()).toBe(run)
})

describe('equal calls', () => {
  /** Calls wait for the gate before they reach a worker. */
  function gated() {
    const gate = Promise.withResolvers<void>()
    const calls: PoolCall[] = []
    const rpc = testRpc({
      executor: (local) => ({
        async execute(call) {
          calls.push(call)
          await gate.promise
          return local.execute(call)
        },
      }),
    })
    const { memory } = rpc
    const first = memory.make(memory.genesis, { salt: 0x10 })
    memory.publish({ canonical: first })
    const item = { jsonrpc: '2.0', id: 1, method: 'eth_call', params: [CALL, 'latest'] }
    const answers = async (count: number) => {
      const body = count === 1 ? item : Array.from({ length: count }, () => item)
      const { text } = await rpc.send(JSON.stringify(body))
      return [JSON.parse(text!) as { result: string }].flat().map(({ result }) => result.slice(-2))
    }
    return { rpc, memory, first, gate, calls, answers }
  }

  test('of a batch, of other requests and of the next flashblock run once', async () => {
    const { memory, first, gate, calls, answers } = gated()
    const asked = [answers(1), answers(2), answers(3)]
    memory.publish({ canonical: first, pending: memory.make(first, { index: 0 }) })
    asked.push(answers(1), answers(2))
    gate.resolve()
    expect((await Promise.all(asked)).flat()).toEqual(Array.from({ length: 9 }, () => '10'))
    expect(calls).toHaveLength(1)
    expect([await answers(1), calls.length]).toEqual([['10'], 1])
  })

  test('of another address are not refused for the share that its first caller has used up', async () => {
    const first = Promise.withResolvers<PoolReply>()
    const calls: PoolCall[] = []
    const { ask } = testRpc({
      executor: (local) => ({
        execute: (call) => (calls.push(call) === 1 ? first.promise : local.execute(call)),
      }),
    })
    const from = (address: string) => ask('eth_call', [CALL, 'latest'], { address })
    const [busy, same, other] = [from('192.0.2.1'), from('192.0.2.1'), from('192.0.2.2')]
    first.resolve({ error: overloaded('2000 calls wait', 200).toObject() })
    expect(await busy).toMatchObject({ error: { code: -32005 } })
    expect(await same).toMatchObject({ error: { code: -32005 } })
    expect(await other).toMatchObject({ result: expect.any(String) })
    expect(calls.map(({ client }) => client.address)).toEqual(['192.0.2.1', '192.0.2.2'])
  })

  test('an answer from a newer record is for nobody who holds an older one', async () => {
    const { memory, first, gate, calls, answers } = gated()
    const single = answers(1)
    const batch = answers(2)
    memory.publish({ canonical: memory.make(first, { salt: 0x11 }) })
    gate.resolve()
    // The chain in maps has given the batch's record away, so it starts again.
    expect(await single).toEqual(['11'])
    expect(await batch).toEqual(['11', '11'])
    const runs = calls.length
    memory.publish({ canonical: first })
    expect(await answers(1)).toEqual(['10'])
    expect(calls.length).toBe(runs + 1)
  })
})

describe('the cache', () => {
  const reply = { result: '"0x12345"' }

  test('holds so many items: the oldest make room', () => {
    const cache = createResultCache({ items: 2, bytes: 1_000 })
    for (const key of ['a', 'b', 'a', 'c']) cache.set(key, reply)
    expect(['a', 'b', 'c'].map((key) => cache.get(key))).toEqual([undefined, reply, reply])
    expect(cache.stats).toMatchObject({ hits: 2, misses: 1, items: 2, bytes: 20 })
  })

  test('holds so many bytes', () => {
    const cache = createResultCache({ items: 10, bytes: 25 })
    for (const key of ['a', 'b', 'c']) cache.set(key, reply)
    expect(cache.stats).toMatchObject({ items: 2, bytes: 20 })
    cache.set('long', { result: 'x'.repeat(22) })
    expect(cache.stats).toMatchObject({ items: 2, bytes: 20 })
    cache.set('long', { result: 'x'.repeat(21) })
    expect(cache.stats).toMatchObject({ items: 1, bytes: 25 })
  })
})
