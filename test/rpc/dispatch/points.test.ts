/** What a request costs in the rate limit, seen from the answerer. */
import { describe, expect, test } from 'vitest'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { keyedAddress } from '../../../rpc/seam/address.ts'
import { type Paid, UNPAID } from '../../../rpc/seam/paid.ts'
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

/** The least limit that lets the body through is its cost. */
async function costOf(body: string): Promise<number> {
  for (let perSecond = 1; perSecond <= 200; perSecond++) {
    const { status } = await testRpc({ perSecond }).send(body)
    if (status !== 429) return perSecond
  }
  throw new Error('it costs more than 200')
}

describe('a request costs the most of', () => {
  const cases: [name: string, body: string, cost: number][] = [
    ['its one call', call(), 1],
    ['its calls', batch(7), 7],
    ['as many calls as it may have', batch(100), 100],
    ['a weight', TRACE, 10],
    ['its slots, 32 for a point', slots(32), 1],
    ['its slots, 32 for a point, started', slots(33), 2],
    ['its slots, as many as it may ask for', slots(1_024), 32],
    ['its slots, of which none is read: they are too many', slots(1_025), 2],
    ['a replay of flashblocks', subscribe('"newFlashblocks",{"since":"1:0"}'), 10],
    ['a replay, whatever follows', subscribe('"newFlashblocks",{"since":"1:0"},null'), 10],
    ['nothing but space', '  ', 1],
    ['its started 64 kB', text(65_400), 1],
    ['its started 64 kB, two', text(70_000), 2],
    ['its started 64 kB, all', text(1_990_000), 31],
    ['its started 5,000 values', call(1, `[${Array(4_990).fill(1).join(',')}]`), 1],
    ['its started 5,000 values, three', call(1, `[${Array(12_000).fill(1).join(',')}]`), 3],
    ['what is no JSON: its bytes', `{${' '.repeat(150_000)}`, 3],
    ['an empty batch', '[]', 1],
    ['a batch that is too long: what it is answered with', batch(640), 20],
  ]
  test.each(cases)('%s', async (_name, body, cost) => {
    expect(await costOf(body)).toBe(cost)
  })
})

describe('by cost, where that is asked for', () => {
  const of = (method: string, ...params: unknown[]) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  /** The points that it took from an address. */
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
    ['a batch: all of its calls', `[${of('eth_chainId')},${TRACE},${of('eth_call', {})}]`, 12, 43],
    ['what nobody serves', of('eth_nothing'), 1, 1],
  ]
  test.each(cases)('%s', async (_name, body, byRequest, byCost) => {
    expect(await spentOn(body, 'request')).toBe(byRequest)
    expect(await spentOn(body, 'cost')).toBe(byCost)
  })

  test('a refusal says what it cost and what is left', async () => {
    const rpc = testRpc({ perSecond: 50, limitBy: 'cost' })
    expect((await rpc.send(TRACE)).status).toBe(200)
    const { status, text: said, headers } = await rpc.send(TRACE)
    expect(status).toBe(429)
    const { error } = JSON.parse(said!) as { error: { data: Record<string, unknown> } }
    expect(error.data).toEqual({
      ...{ reason: 'rate', bucket: 'address', limit: 50, used: 40, cost: 40, remaining: 10 },
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
  test('tells a caller its second, itself included', async () => {
    const rpc = testRpc({ perSecond: 50 })
    await rpc.send(batch(7))
    expect((await rpc.ask('rpc_limits')).result).toEqual({
      ...{ by: 'request', bucket: 'address', limit: 50, used: 8, remaining: 42, owed: 0 },
      resetMs: expect.any(Number),
      costs: expect.objectContaining({ debug_traceTransaction: 10, eth_simulateV1: 5 }),
    })
    const other = await rpc.ask('rpc_limits', [], { address: '10.9.9.9' })
    expect(other.result).toMatchObject({ used: 1, remaining: 49 })
  })
  test('tells what calls cost, by what is asked', async () => {
    const costs = async (limitBy: 'request' | 'cost') =>
      ((await testRpc({ limitBy }).ask('rpc_limits')).result as { costs: object }).costs
    expect(await costs('request')).not.toHaveProperty('eth_call')
    expect(await costs('cost')).toMatchObject({ eth_call: 2, eth_sendRawTransaction: 10 })
  })
  test('of who has no limit', async () => {
    const { result } = await testRpc().ask('rpc_limits')
    expect(result).toMatchObject({ by: 'request', bucket: 'address', limit: null })
  })
  test('of a key', async () => {
    const rpc = testRpc({ perSecond: 50 })
    const client = { address: keyedAddress('partner') }
    expect((await rpc.ask('rpc_limits', [], client)).result).toMatchObject({ bucket: 'key' })
    const refused = await rpc.ask('rpc_limits', [], client).then(() => rpc.send(batch(60), client))
    expect(refused.headers['RateLimit']).toBe('"key";r=48;t=1')
  })
})

describe('refused', () => {
  test('short: an error for each call, and nothing is used', async () => {
    const rpc = testRpc({ perSecond: 10 })
    const { status, text: said } = await rpc.send(batch(11))
    expect(status).toBe(429)
    const errors = JSON.parse(said!) as { id: number; error: { data: object } }[]
    expect(errors.map(({ id }) => id)).toEqual(Array.from({ length: 11 }, (_, id) => id))
    expect(errors[0]!.error.data).toMatchObject({ limit: 10, used: 0, cost: 11 })
    expect((await rpc.send(batch(10))).status).toBe(200)
  })
  test('long: one error, and nothing is used', async () => {
    const rpc = testRpc({ perSecond: 3 })
    const { status, text: said } = await rpc.send(text(250_000))
    expect(status).toBe(429)
    expect(JSON.parse(said!)).toMatchObject({ id: null, error: { data: { used: 0, cost: 4 } } })
    expect((await rpc.send(batch(3))).status).toBe(200)
  })
  test('after as many refusals as it has points, its connection is not to be read', async () => {
    const rpc = testRpc({ perSecond: 2 })
    await rpc.send(batch(2))
    const holds: (number | undefined)[] = []
    for (let time = 0; time < 3; time++) holds.push((await rpc.send(call())).holdMs)
    expect(holds[0]).toBeUndefined()
    expect(holds[1]).toBeGreaterThan(0)
    expect(holds[2]).toBeGreaterThan(0)
  })
})

describe('what was paid on its way in', () => {
  const client = { address: '10.0.0.1' }
  const THREE: Paid = { points: 3, least: 4 }
  test('is not paid again', async () => {
    const rpc = testRpc({ perSecond: 1 })
    const whole = { ...client, endpoint: 'standard', notify: () => true, isGone: false } as const
    const { signal } = new AbortController()
    const answer = await rpc.answer(text(250_000), { ...whole, signal }, THREE)
    expect(answer.status).toBe(200)
  })
  const cases: [name: string, body: string, paid: Paid, cost: number][] = [
    ['128 kB of letters of two bytes', call(1, '["ü"]'), { ...UNPAID, points: 1, least: 2 }, 1],
    ['many pieces of few bytes', call(), { ...UNPAID, points: 3, least: 4 }, 1],
    ['as many bytes as nobody counted on the way', call(), { ...UNPAID, least: 2 }, 2],
    ['nothing but space', ' ', { ...UNPAID, points: 2, least: 3 }, 1],
    ['what was not parsed at once', text(250_000), { ...UNPAID, points: 4, least: 6 }, 2],
    ['more calls than bytes', batch(9), { ...UNPAID, points: 3, least: 4 }, 6],
  ]
  test.each(cases)('%s: the bytes cost no less', async (_name, body, paid, rest) => {
    const limiter = createLimiter({ perSecond: 100, keys: 10, now: () => Date.now() })
    const rpc = testRpc({ limiter })
    const { signal } = new AbortController()
    const whole = {
      ...client,
      endpoint: 'standard',
      notify: () => true,
      isGone: false,
      signal,
    } as const
    await rpc.answer(body, whole, paid)
    expect(limiter.charged).toBe(rest)
  })
  test('stays paid with the refusal, because the bytes were read', async () => {
    const limiter = createLimiter({ perSecond: 10, keys: 10, now: () => Date.now() })
    const rpc = testRpc({ limiter })
    const { signal } = new AbortController()
    const whole = {
      ...client,
      endpoint: 'standard',
      notify: () => true,
      isGone: false,
      signal,
    } as const
    await rpc.answer(batch(7), whole)
    await limiter.charge(client.address, 3)
    const paid = { ...UNPAID, points: 3, least: 4 }
    const refused = await rpc.answer(text(250_000), whole, paid)
    expect(refused.status).toBe(429)
    const { error } = JSON.parse(refused.text!) as { error: { data: object } }
    expect(error.data).toMatchObject({ used: 10, cost: 4 })
    expect(limiter.charged).toBe(10)
  })
})
