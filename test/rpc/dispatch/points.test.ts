/** These tests measure the cost of a request in the rate limit at the dispatcher. */
import { describe, expect, test } from 'vitest'
import { NOTHING_PREPAID, type Prepaid } from '../../../rpc/core/prepaid.ts'
import { keyedAddress } from '../../../rpc/limiter/address.ts'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const call = (id: number | string = 1, params = '[]') =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"method":"eth_chainId","params":${params}}`
const batch = (count: number) => `[${Array.from({ length: count }, (_, id) => call(id)).join(',')}]`
const text = (bytes: number) => call(1, `["${'0x'.padEnd(bytes, '1')}"]`)
const TRACE = '{"jsonrpc":"2.0","id":1,"method":"debug_traceTransaction","params":["0x11"]}'

const subscribe = (params: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":[${params}]}`

const slots = (count: number) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'eth_getStorageValues',
    params: [{ [`0x${'1'.repeat(40)}`]: Array(count).fill(`0x${'2'.repeat(64)}`) }, 'latest'],
  })

/** Finds the cost: the minimum limit that lets the body through. */
async function costOf(body: string): Promise<number> {
  for (let perSecond = 1; perSecond <= 200; perSecond++) {
    const { status } = await testRpc({ perSecond }).send(body)
    if (status !== 429) return perSecond
  }
  throw new Error('it costs more than 200')
}

describe('the cost of a request', () => {
  const cases: [name: string, body: string, cost: number][] = [
    ['one call', call(), 1],
    ['seven calls', batch(7), 7],
    ['the maximum number of calls', batch(100), 100],
    ['a method with a weight of 10', TRACE, 10],
    ['32 slots', slots(32), 1],
    ['33 slots', slots(33), 2],
    ['the maximum number of slots', slots(1_024), 32],
    ['too many slots, of which none is read', slots(1_025), 2],
    ['a replay of flashblocks', subscribe('"newFlashblocks",{"since":"1:0"}'), 10],
    ['a replay with another parameter', subscribe('"newFlashblocks",{"since":"1:0"},null'), 10],
    ['only spaces', '  ', 1],
    ['up to 64 kB', text(65_400), 1],
    ['more than 64 kB', text(70_000), 2],
    ['almost 2 MB', text(1_990_000), 31],
    ['up to 5,000 values', call(1, `[${Array(4_990).fill(1).join(',')}]`), 1],
    ['12,000 values', call(1, `[${Array(12_000).fill(1).join(',')}]`), 3],
    ['the bytes of invalid JSON', `{${' '.repeat(150_000)}`, 3],
    ['an empty batch', '[]', 1],
    ['the error responses of a batch that is too long', batch(640), 20],
  ]
  test.each(cases)('is the maximum of its parts: %s', async (_name, body, cost) => {
    expect(await costOf(body)).toBe(cost)
  })
})

describe('the limit by cost', () => {
  const of = (method: string, ...params: unknown[]) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  /** Counts the points that the body took from an address. */
  async function spentOn(body: string, limitBy: 'request' | 'cost'): Promise<number> {
    const limiter = createLimiter({ perSecond: 1_000, keys: 10, now: () => Date.now() })
    await testRpc({ limiter, limitBy }).send(body)
    return limiter.charged
  }
  const cases: [name: string, body: string, byRequest: number, byCost: number][] = [
    ['a read', of('eth_chainId'), 1, 1],
    ['a call', of('eth_call', { to: `0x${'1'.repeat(40)}` }), 1, 2],
    ['logs', of('eth_getLogs', {}), 1, 5],
    ['a send', of('eth_sendRawTransaction', '0x00'), 1, 10],
    ['a trace', TRACE, 10, 40],
    ['many slots, which cost more than their method', slots(1_024), 32, 32],
    ['all calls of a batch', `[${of('eth_chainId')},${TRACE},${of('eth_call', {})}]`, 12, 43],
    ['an unknown method', of('eth_nothing'), 1, 1],
  ]
  test.each(cases)(
    'charges the points of each method, unlike the limit by request: %s',
    async (_name, body, byRequest, byCost) => {
      expect(await spentOn(body, 'request')).toBe(byRequest)
      expect(await spentOn(body, 'cost')).toBe(byCost)
    },
  )

  test('has cost and remaining points in its refusals', async () => {
    const rpc = testRpc({ perSecond: 50, limitBy: 'cost' })
    expect((await rpc.send(TRACE)).status).toBe(200)
    const { status, text: said, headers } = await rpc.send(TRACE)
    expect(status).toBe(429)
    const { error } = JSON.parse(said!) as { error: { data: Record<string, unknown> } }
    expect(error.data).toEqual({
      reason: 'rate',
      bucket: 'address',
      limit: 50,
      used: 40,
      cost: 40,
      remaining: 10,
      retryAfterMs: expect.any(Number),
    })
    expect(headers).toEqual({
      'Retry-After': '1',
      RateLimit: '"address";r=10;t=1',
      'RateLimit-Policy': '"address";q=50;w=1',
    })
  })
})

describe('rpc_limits', () => {
  test('gives the usage of the caller, itself included', async () => {
    const rpc = testRpc({ perSecond: 50 })
    await rpc.send(batch(7))
    expect((await rpc.request('rpc_limits')).result).toEqual({
      by: 'request',
      bucket: 'address',
      limit: 50,
      used: 8,
      remaining: 42,
      owed: 0,
      resetMs: expect.any(Number),
      costs: expect.objectContaining({ debug_traceTransaction: 10, eth_simulateV1: 5 }),
    })
    const other = await rpc.request('rpc_limits', [], { address: '10.9.9.9' })
    expect(other.result).toMatchObject({ used: 1, remaining: 49 })
  })
  test('gives the costs of calls in the configured unit', async () => {
    const costs = async (limitBy: 'request' | 'cost') =>
      ((await testRpc({ limitBy }).request('rpc_limits')).result as { costs: object }).costs
    expect(await costs('request')).not.toHaveProperty('eth_call')
    expect(await costs('cost')).toMatchObject({ eth_call: 2, eth_sendRawTransaction: 10 })
  })
  test('gives no limit to an unlimited caller', async () => {
    const { result } = await testRpc().request('rpc_limits')
    expect(result).toMatchObject({ by: 'request', bucket: 'address', limit: null })
  })
  test('gives the bucket of an API key', async () => {
    const rpc = testRpc({ perSecond: 50 })
    const client = { address: keyedAddress('partner') }
    expect((await rpc.request('rpc_limits', [], client)).result).toMatchObject({ bucket: 'key' })
    const refused = await rpc
      .request('rpc_limits', [], client)
      .then(() => rpc.send(batch(60), client))
    expect(refused.headers['RateLimit']).toBe('"key";r=48;t=1')
  })
})

describe('a refused request', () => {
  test('with few calls gets an error for each, and is not charged', async () => {
    const rpc = testRpc({ perSecond: 10 })
    const { status, text: said } = await rpc.send(batch(11))
    expect(status).toBe(429)
    const errors = JSON.parse(said!) as { id: number; error: { data: object } }[]
    expect(errors.map(({ id }) => id)).toEqual(Array.from({ length: 11 }, (_, id) => id))
    expect(errors[0]!.error.data).toMatchObject({ limit: 10, used: 0, cost: 11 })
    expect((await rpc.send(batch(10))).status).toBe(200)
  })
  test('with a long body gets one error, and is not charged', async () => {
    const rpc = testRpc({ perSecond: 3 })
    const { status, text: said } = await rpc.send(text(250_000))
    expect(status).toBe(429)
    expect(JSON.parse(said!)).toMatchObject({ id: null, error: { data: { used: 0, cost: 4 } } })
    expect((await rpc.send(batch(3))).status).toBe(200)
  })
  test('throttles its connection after as many refusals as points', async () => {
    const rpc = testRpc({ perSecond: 2 })
    await rpc.send(batch(2))
    const throttleTimes: (number | undefined)[] = []
    for (let time = 0; time < 3; time++) throttleTimes.push((await rpc.send(call())).throttleMs)
    expect(throttleTimes[0]).toBeUndefined()
    expect(throttleTimes[1]).toBeGreaterThan(0)
    expect(throttleTimes[2]).toBeGreaterThan(0)
  })
})

describe('a prepaid body', () => {
  const client = { address: '10.0.0.1' }
  const THREE: Prepaid = { points: 3, min: 4 }
  test('is not charged again', async () => {
    const rpc = testRpc({ perSecond: 1 })
    const full = { ...client, endpoint: 'standard', notify: () => true, isGone: false } as const
    const { signal } = new AbortController()
    const response = await rpc.respond(text(250_000), { ...full, signal }, THREE)
    expect(response.status).toBe(200)
  })
  const cases: [name: string, body: string, prepaid: Prepaid, cost: number][] = [
    ['many letters of two bytes', call(1, '["ü"]'), { ...NOTHING_PREPAID, points: 1, min: 2 }, 1],
    ['many pieces of few bytes', call(), { ...NOTHING_PREPAID, points: 3, min: 4 }, 1],
    ['bytes that were not counted during arrival', call(), { ...NOTHING_PREPAID, min: 2 }, 2],
    ['only spaces', ' ', { ...NOTHING_PREPAID, points: 2, min: 3 }, 1],
    ['a large body in many pieces', text(250_000), { ...NOTHING_PREPAID, points: 4, min: 6 }, 2],
    ['more calls than bytes', batch(9), { ...NOTHING_PREPAID, points: 3, min: 4 }, 6],
  ]
  test.each(cases)('is charged the rest of its cost: %s', async (_name, body, prepaid, rest) => {
    const limiter = createLimiter({ perSecond: 100, keys: 10, now: () => Date.now() })
    const rpc = testRpc({ limiter })
    const { signal } = new AbortController()
    const full = {
      ...client,
      endpoint: 'standard',
      notify: () => true,
      isGone: false,
      signal,
    } as const
    await rpc.respond(body, full, prepaid)
    expect(limiter.charged).toBe(rest)
  })
  test('stays charged when its request is refused', async () => {
    const limiter = createLimiter({ perSecond: 10, keys: 10, now: () => Date.now() })
    const rpc = testRpc({ limiter })
    const { signal } = new AbortController()
    const full = {
      ...client,
      endpoint: 'standard',
      notify: () => true,
      isGone: false,
      signal,
    } as const
    await rpc.respond(batch(7), full)
    await limiter.charge(client.address, 3)
    const prepaid = { ...NOTHING_PREPAID, points: 3, min: 4 }
    const refused = await rpc.respond(text(250_000), full, prepaid)
    expect(refused.status).toBe(429)
    const { error } = JSON.parse(refused.text!) as { error: { data: object } }
    expect(error.data).toMatchObject({ used: 10, cost: 4 })
    expect(limiter.charged).toBe(10)
  })
})
