import { describe, expect, test } from 'vitest'
import { WHOLE_INDEX } from '../../../engine/views/whole-index.ts'
import type { Client } from '../../../rpc/seam/client.ts'
import { GENESIS, placeChain } from '../../fixtures/place-chain.ts'
import type { Reply } from '../../fixtures/rpc.ts'

const BLOCK = GENESIS + 1
/** Longer than any test waits. */
const LONG = { placeWaitMs: 60_000 }
type World = ReturnType<typeof placeChain>

const heightAt = ({ rpc }: World, minFlashblock: string, client: Partial<Client> = {}) =>
  rpc.ask('eth_blockNumber', ['pending'], { ...client, minFlashblock })
const hex = (number: number) => `0x${number.toString(16)}`
/** As soon as it is so; the request has waited for nothing but that. */
const waiting = async ({ rpc }: World, count: number) => {
  while (rpc.stats().places.waiting !== count) await new Promise(setImmediate)
}

function started(limits: object = LONG): World {
  const world = placeChain({ limits })
  world.driver.payload(2)
  return world
}

describe('a request that asks for a place', () => {
  test('is answered at once where the view is that new', async () => {
    const world = started({ placeWaitMs: 0 })
    world.driver.flashblock(4)
    const { payloadId } = world.driver.pending
    for (const place of [
      `${BLOCK}:0`,
      `${BLOCK}:1`,
      `${BLOCK}:1:`,
      `${BLOCK}:1:${payloadId}`,
      `${BLOCK}:0:${payloadId.toUpperCase().replace('X', 'x')}`,
      `${GENESIS}:77`,
      `5:0:0x0123456789abcdef`,
    ])
      expect([place, (await heightAt(world, place)).result]).toEqual([place, hex(BLOCK)])
    expect(world.rpc.stats().places).toEqual({ waiting: 0, held: 0, expired: 0, refused: 0 })
  })

  test('waits for the flashblock, and holds no view meanwhile', async () => {
    const world = started()
    const asked = heightAt(world, `${BLOCK}:1:${world.driver.pending.payloadId}`)
    await waiting(world, 1)
    for (let at = 0; at < 3; at++) world.driver.publish()
    const { oldestLease, records } = world.publisher.stats()
    expect(oldestLease).toBe(records)
    world.driver.flashblock(5)
    expect((await asked).result).toBe(hex(BLOCK))
  })

  test('waits for a block of which nothing is here yet', async () => {
    const world = started()
    const asked = heightAt(world, `${BLOCK + 1}:0`)
    await waiting(world, 1)
    world.driver.seal()
    await waiting(world, 1)
    world.driver.payload(4)
    expect((await asked).result).toBe(hex(BLOCK + 1))
  })

  test('of an index that a block never had is answered when the block is whole', async () => {
    const world = started()
    const asked = heightAt(world, `${BLOCK}:9:${world.driver.pending.payloadId}`)
    await waiting(world, 1)
    world.driver.flashblock(5)
    await waiting(world, 1)
    world.driver.seal()
    expect((await asked).result).toBe(hex(BLOCK))
  })

  test('of all of a block waits for all of it', async () => {
    const before = placeChain()
    const { headers } = await before.rpc.send(
      '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":["pending"]}',
    )
    expect(headers['X-Flashblock']).toBe(`${GENESIS}:${WHOLE_INDEX}:`)
    const world = started()
    const asked = heightAt(world, `${BLOCK}:${WHOLE_INDEX}:`)
    await waiting(world, 1)
    world.driver.flashblock(5)
    await waiting(world, 1)
    world.driver.seal()
    expect((await asked).result).toBe(hex(BLOCK))
  })

  test('is refused with the place here when its time is over', async () => {
    const world = started({ placeWaitMs: 1 })
    const { payloadId } = world.driver.pending
    expect((await heightAt(world, `${BLOCK}:2`)).error).toEqual({
      code: -32001,
      message: `flashblock 2 of block ${BLOCK} is not here: the newest is 0 of block ${BLOCK}`,
      data: { reason: 'behind', newest: { number: hex(BLOCK), index: '0x0', payloadId } },
    })
    expect(world.rpc.stats().places).toEqual({ waiting: 0, held: 1, expired: 1, refused: 0 })
  })

  test('of a replaced payload waits, because that may come, until the block is decided', async () => {
    const world = started()
    const { driver } = world
    const { payloadId: first } = driver.pending
    driver.payload(5)
    const { payloadId } = driver.pending
    const asked = heightAt(world, `${BLOCK}:0:${first}`)
    await waiting(world, 1)
    driver.seal()
    await waiting(world, 1)
    driver.advance()
    expect((await asked).error).toEqual({
      code: -32001,
      message: `flashblock 0 of block ${BLOCK} was of payload ${first}, which is replaced here`,
      data: { reason: 'replaced', newest: { number: hex(BLOCK), index: '0x0', payloadId } },
    })
    const again = await heightAt(world, `${BLOCK}:0:${first}`)
    expect(again.error?.data).toMatchObject({ reason: 'replaced' })
    expect(world.rpc.stats().places).toEqual({ waiting: 0, held: 1, expired: 0, refused: 0 })
  })

  test('is given up with its client', async () => {
    const world = started()
    const gone = new AbortController()
    const asked = heightAt(world, `${BLOCK}:9`, { signal: gone.signal })
    await waiting(world, 1)
    gone.abort()
    await waiting(world, 0)
    await asked
  })

  test('is refused where too many of its address wait', async () => {
    const world = started({ ...LONG, placeWaitsPerClient: 1 })
    const first = heightAt(world, `${BLOCK}:1`)
    await waiting(world, 1)
    expect((await heightAt(world, `${BLOCK}:1`)).error).toEqual({
      code: -32005,
      message: 'too many requests wait for a flashblock: at most 1',
      data: { reason: 'cap', limit: 1 },
    })
    world.driver.flashblock(5)
    expect((await first).result).toBe(hex(BLOCK))
    // The place is given back.
    const second = heightAt(world, `${BLOCK}:2`)
    await waiting(world, 1)
    world.driver.flashblock(8)
    expect((await second).result).toBe(hex(BLOCK))
  })

  test('on the standard endpoint waits for the canonical block', async () => {
    const world = started()
    const { driver } = world
    const asked = heightAt(world, `${BLOCK}:7`, { endpoint: 'standard' })
    driver.seal()
    await waiting(world, 1)
    driver.advance()
    expect((await asked).result).toBe(hex(BLOCK))
  })
})

test('an answer of a worker stands where the worker has read, not where the chain is by then', async () => {
  const world: World = placeChain({
    executor: (local) => ({
      async execute(call) {
        const reply = await local.execute(call)
        world.driver.flashblock(5)
        return reply
      },
    }),
  })
  world.driver.payload(2)
  const { payloadId } = world.driver.pending
  const call = { to: `0x${'01'.repeat(20)}` }
  const body = { jsonrpc: '2.0', id: 1, method: 'eth_call', params: [call, 'pending'] }
  const { headers } = await world.rpc.send(JSON.stringify(body))
  expect(headers['X-Flashblock']).toBe(`${BLOCK}:0:${payloadId}`)
  const { headers: later } = await world.rpc.send(
    JSON.stringify({ ...body, method: 'eth_blockNumber', params: ['pending'] }),
  )
  expect(later['X-Flashblock']).toBe(`${BLOCK}:1:${payloadId}`)
})

describe('wrong places', () => {
  test.each(['', '5', '5:', ':1', '0x5:1', '5:1:0x12', '5:1:0x0123456789abcdef:', '-1:0', '5:1 '])(
    '%j',
    async (wire) => {
      const { error } = await heightAt(started(), wire)
      expect(error).toEqual({
        code: -32602,
        message:
          'X-Min-Flashblock: expected number:index or number:index:payload, such as 16:3 or 16:3:0x0123456789abcdef',
      })
    },
  )
  test.each([5, {}, [], true])('a member that is %j', async (minFlashblock) => {
    const { rpc } = started()
    const request = { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', minFlashblock }
    const { text } = await rpc.send(JSON.stringify(request))
    expect((JSON.parse(text!) as Reply).error?.code).toBe(-32602)
  })
})

describe('a batch', () => {
  const item = (id: number, more: object = {}) => ({
    jsonrpc: '2.0',
    id,
    method: 'eth_getBlockByNumber',
    params: ['pending', false],
    ...more,
  })

  test('waits as a whole, for all that its items ask', async () => {
    const world = started()
    const body = [
      item(1, { minFlashblock: `${BLOCK}:2` }),
      item(2, { method: 'eth_call', params: [{ to: `0x${'01'.repeat(20)}` }, 'pending'] }),
      item(3, { minFlashblock: `${BLOCK}:1:${world.driver.pending.payloadId}` }),
    ]
    const asked = world.rpc.send(JSON.stringify(body))
    await waiting(world, 1)
    world.driver.flashblock(5)
    await waiting(world, 1)
    world.driver.flashblock(8)
    const { text, headers } = await asked
    const replies = JSON.parse(text!) as Reply[]
    const hashes = replies.map(({ result }) => (result as { hash?: string }).hash)
    expect(hashes[0]).toBeDefined()
    expect(hashes[2]).toBe(hashes[0])
    expect(headers['X-Flashblock']).toBe(`${BLOCK}:2:${world.driver.pending.payloadId}`)
    expect(world.rpc.poolCalls.map(({ record }) => record)).toEqual([expect.any(Number)])
  })

  test('that is refused says so of each item, and of what else is wrong with one', async () => {
    const world = started({ placeWaitMs: 1 })
    const wrong = { jsonrpc: '2.0', id: 2 }
    const silent = { ...item(0), id: undefined }
    const body = [item(1), wrong, silent, item(3, { minFlashblock: `${BLOCK}:5` })]
    const { text } = await world.rpc.send(JSON.stringify(body))
    const codes = (JSON.parse(text!) as Reply[]).map(({ id, error }) => [id, error?.code])
    expect(codes).toEqual([
      [1, -32001],
      [2, -32600],
      [3, -32001],
    ])
  })
})

test('a flush between the wait and the read gives no older answer', async () => {
  const world = started()
  const { driver, rpc } = world
  driver.seal()
  driver.payload(5)
  const asked = heightAt(world, `${BLOCK + 1}:1`)
  await waiting(world, 1)
  // Both before the one that waits has its turn.
  driver.flashblock(8)
  driver.flush()
  expect((await asked).error).toMatchObject({ code: -32001, data: { reason: 'behind' } })
  expect(rpc.bugs).toEqual([])
})

test('a call reads the record that was looked at, also when a worker takes it later', async () => {
  const world = started()
  const { driver, rpc } = world
  driver.flashblock(5)
  const client = { minFlashblock: `${BLOCK}:1` }
  const asked = rpc.ask('eth_call', [{ to: `0x${'01'.repeat(20)}` }, 'pending'], client)
  driver.flush()
  expect((await asked).error).toBeUndefined()
  expect(rpc.poolCalls).toHaveLength(1)
  expect(rpc.poolCalls[0]!.record).toBeDefined()
})
