import { describe, expect, test } from 'vitest'
import { FULL_BLOCK_INDEX } from '../../../engine/views/types.ts'
import type { Client } from '../../../rpc/core/client.ts'
import { drivenChain, GENESIS } from '../../fixtures/driven-chain.ts'
import type { Reply } from '../../fixtures/rpc.ts'

const BLOCK = GENESIS + 1
/** The timeout is longer than any test. */
const LONG = { placeWaitMs: 60_000 }
type World = ReturnType<typeof drivenChain>

const heightAt = ({ rpc }: World, minFlashblock: string, client: Partial<Client> = {}) =>
  rpc.request('eth_blockNumber', ['pending'], { ...client, minFlashblock })
const hex = (number: number) => `0x${number.toString(16)}`
/** Resolves as soon as this many requests wait. */
const waiting = async ({ rpc }: World, count: number) => {
  while (rpc.stats().flashblockWaits.waiting !== count) await new Promise(setImmediate)
}

function started(limits: object = LONG): World {
  const world = drivenChain({ limits })
  world.driver.payload(2)
  return world
}

describe('a request with a minimum flashblock', () => {
  test('is answered at once when its view is new enough', async () => {
    const world = started({ placeWaitMs: 0 })
    world.driver.flashblock(4)
    const { payloadId } = world.driver.pending
    for (const flashblockId of [
      `${BLOCK}:0`,
      `${BLOCK}:1`,
      `${BLOCK}:1:`,
      `${BLOCK}:1:${payloadId}`,
      `${BLOCK}:0:${payloadId.toUpperCase().replace('X', 'x')}`,
      `${GENESIS}:77`,
      `5:0:0x0123456789abcdef`,
    ])
      expect([flashblockId, (await heightAt(world, flashblockId)).result]).toEqual([
        flashblockId,
        hex(BLOCK),
      ])
    expect(world.rpc.stats().flashblockWaits).toEqual({
      waiting: 0,
      held: 0,
      expired: 0,
      refused: 0,
    })
  })

  test('waits until that flashblock arrives, without a lease', async () => {
    const world = started()
    const request = heightAt(world, `${BLOCK}:1:${world.driver.pending.payloadId}`)
    await waiting(world, 1)
    for (let at = 0; at < 3; at++) world.driver.publish()
    const { oldestLease, snapshots } = world.publisher.stats()
    expect(oldestLease).toBe(snapshots)
    world.driver.flashblock(5)
    expect((await request).result).toBe(hex(BLOCK))
  })

  test('waits for a block that has not started yet', async () => {
    const world = started()
    const request = heightAt(world, `${BLOCK + 1}:0`)
    await waiting(world, 1)
    world.driver.seal()
    await waiting(world, 1)
    world.driver.payload(4)
    expect((await request).result).toBe(hex(BLOCK + 1))
  })

  test('is answered by the complete block when its index never comes', async () => {
    const world = started()
    const request = heightAt(world, `${BLOCK}:9:${world.driver.pending.payloadId}`)
    await waiting(world, 1)
    world.driver.flashblock(5)
    await waiting(world, 1)
    world.driver.seal()
    expect((await request).result).toBe(hex(BLOCK))
  })

  test('for the full block waits until the block is complete', async () => {
    const before = drivenChain()
    const { headers } = await before.rpc.send(
      '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":["pending"]}',
    )
    expect(headers['X-Flashblock']).toBe(`${GENESIS}:${FULL_BLOCK_INDEX}:`)
    const world = started()
    const request = heightAt(world, `${BLOCK}:${FULL_BLOCK_INDEX}:`)
    await waiting(world, 1)
    world.driver.flashblock(5)
    await waiting(world, 1)
    world.driver.seal()
    expect((await request).result).toBe(hex(BLOCK))
  })

  test('is refused with the newest flashblock when its timeout ends', async () => {
    const world = started({ placeWaitMs: 1 })
    const { payloadId } = world.driver.pending
    expect((await heightAt(world, `${BLOCK}:2`)).error).toEqual({
      code: -32001,
      message: `flashblock 2 of block ${BLOCK} is not available yet: the newest is 0 of block ${BLOCK}`,
      data: { reason: 'behind', newest: { number: hex(BLOCK), index: '0x0', payloadId } },
    })
    expect(world.rpc.stats().flashblockWaits).toEqual({
      waiting: 0,
      held: 1,
      expired: 1,
      refused: 0,
    })
  })

  test('for a replaced payload waits until the block is canonical, then is refused', async () => {
    const world = started()
    const { driver } = world
    const { payloadId: first } = driver.pending
    driver.payload(5)
    const { payloadId } = driver.pending
    const request = heightAt(world, `${BLOCK}:0:${first}`)
    await waiting(world, 1)
    driver.seal()
    await waiting(world, 1)
    driver.advance()
    expect((await request).error).toEqual({
      code: -32001,
      message: `flashblock 0 of block ${BLOCK} is of payload ${first}, which another payload has replaced`,
      data: { reason: 'replaced', newest: { number: hex(BLOCK), index: '0x0', payloadId } },
    })
    const repeated = await heightAt(world, `${BLOCK}:0:${first}`)
    expect(repeated.error?.data).toMatchObject({ reason: 'replaced' })
    expect(world.rpc.stats().flashblockWaits).toEqual({
      waiting: 0,
      held: 1,
      expired: 0,
      refused: 0,
    })
  })

  test.each([false, true])(
    'is refused with the view that the refusal describes: batch %s',
    async (isBatch) => {
      const reads: (number | undefined)[] = []
      const provenance = { read: (snapshot?: number) => void reads.push(snapshot), elsewhere() {} }
      const world = drivenChain({ limits: LONG, provenance })
      const { driver, rpc } = world
      driver.payload(2)
      const { payloadId: first } = driver.pending
      driver.payload(5)
      const { payloadId } = driver.pending
      const item = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":["pending"]}'
      const minFlashblock = `${BLOCK}:0:${first}`
      const refused = rpc.send(isBatch ? `[${item},${item}]` : item, { minFlashblock })
      await waiting(world, 1)
      driver.seal()
      driver.advance()
      const decided = world.newestSnapshot()
      driver.publish()
      expect(world.newestSnapshot()).toBe(decided + 1)
      const { headers, text } = await refused
      expect(text).toContain('which another payload has replaced')
      expect(headers['X-Flashblock']).toBe(`${BLOCK}:0:${payloadId}`)
      expect(reads).toEqual([decided])
    },
  )

  test('stops waiting when its client disconnects', async () => {
    const world = started()
    const gone = new AbortController()
    const request = heightAt(world, `${BLOCK}:9`, { signal: gone.signal })
    await waiting(world, 1)
    gone.abort()
    await waiting(world, 0)
    await request
  })

  test('is refused when too many requests of its address wait', async () => {
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
    // The wait's permit is returned.
    const second = heightAt(world, `${BLOCK}:2`)
    await waiting(world, 1)
    world.driver.flashblock(8)
    expect((await second).result).toBe(hex(BLOCK))
  })

  test('waits for the canonical block on the standard endpoint', async () => {
    const world = started()
    const { driver } = world
    const request = heightAt(world, `${BLOCK}:7`, { endpoint: 'standard' })
    driver.seal()
    await waiting(world, 1)
    driver.advance()
    expect((await request).result).toBe(hex(BLOCK))
  })
})

test('X-Flashblock names the view that the worker read, not a newer one', async () => {
  const world: World = drivenChain({
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

describe('an invalid minimum flashblock', () => {
  test.each(['', '5', '5:', ':1', '0x5:1', '5:1:0x12', '5:1:0x0123456789abcdef:', '-1:0', '5:1 '])(
    'is refused in the header: %j',
    async (wire) => {
      const { error } = await heightAt(started(), wire)
      expect(error).toEqual({
        code: -32602,
        message:
          'X-Min-Flashblock: expected number:index or number:index:payload, such as 16:3 or 16:3:0x0123456789abcdef',
      })
    },
  )
  test.each([5, {}, [], true])('is refused in the request object: %j', async (minFlashblock) => {
    const { rpc } = started()
    const request = { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', minFlashblock }
    const { text } = await rpc.send(JSON.stringify(request))
    expect((JSON.parse(text!) as Reply).error?.code).toBe(-32602)
  })
})

describe('a batch with minimum flashblocks', () => {
  const item = (id: number, more: object = {}) => ({
    jsonrpc: '2.0',
    id,
    method: 'eth_getBlockByNumber',
    params: ['pending', false],
    ...more,
  })

  test('waits for the newest of them, then reads one view for all items', async () => {
    const world = started()
    const body = [
      item(1, { minFlashblock: `${BLOCK}:2` }),
      item(2, { method: 'eth_call', params: [{ to: `0x${'01'.repeat(20)}` }, 'pending'] }),
      item(3, { minFlashblock: `${BLOCK}:1:${world.driver.pending.payloadId}` }),
    ]
    const request = world.rpc.send(JSON.stringify(body))
    await waiting(world, 1)
    world.driver.flashblock(5)
    await waiting(world, 1)
    world.driver.flashblock(8)
    const { text, headers } = await request
    const replies = JSON.parse(text!) as Reply[]
    const hashes = replies.map(({ result }) => (result as { hash?: string }).hash)
    expect(hashes[0]).toBeDefined()
    expect(hashes[2]).toBe(hashes[0])
    expect(headers['X-Flashblock']).toBe(`${BLOCK}:2:${world.driver.pending.payloadId}`)
    expect(world.rpc.poolCalls.map(({ snapshot }) => snapshot)).toEqual([expect.any(Number)])
  })

  test('is refused for each item, and invalid items get their own error', async () => {
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

test('a flush after the wait gives a refusal instead of an older response', async () => {
  const world = started()
  const { driver, rpc } = world
  driver.seal()
  driver.payload(5)
  const request = heightAt(world, `${BLOCK + 1}:1`)
  await waiting(world, 1)
  // Both steps happen before the waiting request has its turn.
  driver.flashblock(8)
  driver.flush()
  expect((await request).error).toMatchObject({ code: -32001, data: { reason: 'behind' } })
  expect(rpc.bugs).toEqual([])
})

test('a worker reads the snapshot that satisfied the minimum flashblock', async () => {
  const world = started()
  const { driver, rpc } = world
  driver.flashblock(5)
  const client = { minFlashblock: `${BLOCK}:1` }
  const request = rpc.request('eth_call', [{ to: `0x${'01'.repeat(20)}` }, 'pending'], client)
  driver.flush()
  expect((await request).error).toBeUndefined()
  expect(rpc.poolCalls).toHaveLength(1)
  expect(rpc.poolCalls[0]!.snapshot).toBeDefined()
})
