/** The limiter and the address it counts for. */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { addressRates } from '../../../rpc/limiter/address-rates.ts'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { clientAddress, isLoopback, limiterKey, trustedProxies } from '../../../rpc/seam/address.ts'

describe('limiter', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 1_000_000, toFake: ['Date', 'setTimeout', 'clearTimeout'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const allowed = async (limiter: ReturnType<typeof createLimiter>, address: string, n: number) => {
    const charges = await Promise.all(Array.from({ length: n }, () => limiter.charge(address, 1)))
    return charges.filter((charge) => charge.isAllowed).length
  }

  test('100 in each second counted from the first request, the rest refused', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, '10.0.0.1', 60)).toBe(60)
    vi.advanceTimersByTime(990)
    expect(await allowed(limiter, '10.0.0.1', 70)).toBe(40)
    expect(await limiter.charge('10.0.0.1', 1)).toEqual({
      isAllowed: false,
      limit: 100,
      used: 100,
      cost: 1,
      retryAfterMs: 10,
    })
    expect(await allowed(limiter, '10.0.0.2', 1)).toBe(1)
    vi.advanceTimersByTime(10)
    expect(await allowed(limiter, '10.0.0.1', 150)).toBe(100)
  })

  test('a charge in the moment in which its second ends holds no longer than that', async () => {
    let isTicking = false
    const limiter = createLimiter({
      ...{ perSecond: 2, keys: 1_000 },
      now() {
        const now = Date.now()
        // A millisecond between two looks.
        if (isTicking) vi.setSystemTime(now + 1)
        return now
      },
    })
    // Its second begins, and nothing is taken of it yet.
    limiter.owe('a', 1)
    vi.advanceTimersByTime(999)
    isTicking = true
    expect(await allowed(limiter, 'a', 1)).toBe(1)
    isTicking = false
    for (let second = 0; second < 3; second++) {
      vi.advanceTimersByTime(2_000)
      expect(await allowed(limiter, 'a', 3)).toBe(2)
    }
  })

  test('seconds follow each other from the first request, whenever the next ones come', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 1)).toBe(1)
    for (const ms of [1_400, 700, 950, 1_900]) {
      vi.advanceTimersByTime(ms)
      expect(await allowed(limiter, 'a', 150)).toBe(100)
    }
    vi.advanceTimersByTime(49)
    expect(await allowed(limiter, 'a', 1)).toBe(0)
    vi.advanceTimersByTime(1)
    expect(await allowed(limiter, 'a', 1)).toBe(1)
    vi.advanceTimersByTime(11_400)
    // Forgotten: its seconds begin here.
    expect(await allowed(limiter, 'a', 150)).toBe(100)
    vi.advanceTimersByTime(999)
    expect(await allowed(limiter, 'a', 1)).toBe(0)
  })

  test('a batch passes whole or not at all, and a refused one uses nothing', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    const charges = await Promise.all([
      limiter.charge('a', 70),
      limiter.charge('a', 40),
      limiter.charge('a', 30),
      limiter.charge('a', 1),
    ])
    expect(charges.map((charge) => charge.isAllowed)).toEqual([true, false, true, false])
  })

  test('what is owed comes off the seconds that follow, ten at most', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 40)).toBe(40)
    limiter.owe('a', 130)
    expect(await allowed(limiter, 'a', 100)).toBe(60)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, 'a', 100)).toBe(0)
    expect(await allowed(limiter, 'b', 100)).toBe(100)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, 'a', 150)).toBe(70)
    limiter.owe('a', 5_000)
    vi.advanceTimersByTime(9_999)
    expect(await allowed(limiter, 'a', 1)).toBe(0)
    // The tenth second ends with 10,999 ms.
    vi.advanceTimersByTime(1_001)
    expect(await allowed(limiter, 'a', 150)).toBe(100)
  })

  test('silence pays a debt as well', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 1)).toBe(1)
    limiter.owe('a', 350)
    vi.advanceTimersByTime(4_000)
    // 300 of them went with the seconds that nobody asked for.
    expect(await allowed(limiter, 'a', 150)).toBe(50)
  })

  test('whoever was refused as often as it has points is held until its second ends', async () => {
    const limiter = createLimiter({ perSecond: 10, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 19)).toBe(10)
    expect(limiter.held('a')).toBeUndefined()
    vi.advanceTimersByTime(400)
    expect(await allowed(limiter, 'a', 1)).toBe(0)
    expect(limiter.held('a')).toEqual({ limit: 10, used: 10, cost: 1, retryAfterMs: 600 })
    expect(limiter.held('b')).toBeUndefined()
    vi.advanceTimersByTime(600)
    expect(limiter.held('a')).toBeUndefined()
    expect(await allowed(limiter, 'a', 11)).toBe(10)
  })

  test('a stall gives its points to who is known, once, and to nobody else', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 100)).toBe(100)
    limiter.stalled(500)
    expect(await allowed(limiter, 'a', 100)).toBe(50)
    expect(await allowed(limiter, 'b', 150)).toBe(100)
    vi.advanceTimersByTime(1_000)
    limiter.stalled(1_000)
    expect(await allowed(limiter, 'a', 300)).toBe(200)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, 'a', 300)).toBe(100)
  })

  test('a stall that is longer than an address is remembered', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 100)).toBe(100)
    expect(await allowed(limiter, 'b', 1)).toBe(1)
    expect(await allowed(limiter, 'c', 1)).toBe(1)
    vi.advanceTimersByTime(12_000)
    limiter.stalled(12_000)
    expect(await allowed(limiter, 'a', 2_000)).toBe(1_300)
    vi.advanceTimersByTime(900)
    expect(await allowed(limiter, 'b', 2_000)).toBe(1_300)
    vi.advanceTimersByTime(8_100)
    expect(await allowed(limiter, 'c', 2_000)).toBe(100)
    // Silence counts again from where it ended.
    vi.advanceTimersByTime(25_000)
    limiter.stalled(12_000)
    expect(await allowed(limiter, 'b', 2_000)).toBe(100)
  })

  test('a stall is made up for to who waited for it, not to who comes long after', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 100)).toBe(100)
    expect(await allowed(limiter, 'b', 1)).toBe(1)
    vi.advanceTimersByTime(5_000)
    limiter.stalled(5_000)
    vi.advanceTimersByTime(1_001)
    expect(await allowed(limiter, 'a', 1_000)).toBe(100)
    vi.advanceTimersByTime(5_000)
    // What came of the one before is not given with the next.
    limiter.stalled(1_000)
    expect(await allowed(limiter, 'b', 1_000)).toBe(200)
    // Of two with less between them than reading takes, both.
    vi.advanceTimersByTime(1_500)
    limiter.stalled(1_000)
    expect(await allowed(limiter, 'a', 1_000)).toBe(300)
  })

  test('charges and time in any order: at most the limit in a second, and all of it in the next', async () => {
    const step = fc.record({
      points: fc.integer({ min: 1, max: 60 }),
      ms: fc.constantFrom(0, 0, 130, 400, 1_001),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const limiter = createLimiter({ perSecond: 100, keys: 10, now: () => Date.now() })
        const used = new Map<number, number>()
        for (const { points, ms } of steps) {
          vi.advanceTimersByTime(ms)
          const charge = await limiter.charge('a', points)
          if (!charge.isAllowed) continue
          used.set(charge.second, (used.get(charge.second) ?? 0) + points)
        }
        for (const points of used.values()) expect(points).toBeLessThanOrEqual(100)
        vi.advanceTimersByTime(1_000)
        expect(await allowed(limiter, 'a', 150)).toBe(100)
      }),
      { numRuns: 100 },
    )
  })

  test('addresses may have a rate of their own, or none', async () => {
    const rateOf = addressRates(['10.1.0.0/16=30', '10.0.0.0/8=off', '2001:db8::/32=20'])
    const limiter = createLimiter({ perSecond: 100, rateOf, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, '10.1.0.1', 150)).toBe(30)
    expect(await allowed(limiter, '10.1.0.2', 150)).toBe(30)
    expect(await allowed(limiter, '10.2.0.1', 150)).toBe(150)
    expect(await allowed(limiter, '2001:db8:1:2::1', 15)).toBe(15)
    expect(await allowed(limiter, '2001:db8:1:2::2', 15)).toBe(5)
    expect(await allowed(limiter, '11.1.0.1', 150)).toBe(100)
    expect(limiter.held('10.1.0.1')).toMatchObject({ limit: 30 })
    expect(await limiter.standing('10.1.0.1')).toEqual({
      ...{ limit: 30, used: 30, owed: 0, resetMs: 1_000 },
    })
    expect(await limiter.standing('10.2.0.1')).toBeUndefined()
    limiter.owe('10.2.0.1', 50)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, '10.2.0.1', 150)).toBe(150)
    expect(await allowed(limiter, '10.1.0.1', 150)).toBe(30)
  })

  test('only some have a limit', async () => {
    const rateOf = addressRates(['10.1.0.0/16=30'])
    const limiter = createLimiter({ perSecond: undefined, rateOf, keys: 10, now: () => Date.now() })
    expect(await allowed(limiter, '10.1.0.1', 150)).toBe(30)
    expect(await allowed(limiter, '11.1.0.1', 150)).toBe(150)
  })

  test('a rate that changes is that of the next second', async () => {
    let rate: number | 'off' = 10
    const now = () => Date.now()
    const limiter = createLimiter({ perSecond: 100, rateOf: () => rate, keys: 10, now })
    expect(await allowed(limiter, 'a', 15)).toBe(10)
    rate = 20
    expect(await allowed(limiter, 'a', 15)).toBe(0)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, 'a', 30)).toBe(20)
    rate = 'off'
    expect(await allowed(limiter, 'a', 30)).toBe(30)
  })

  test.each([
    ['10.0.0.0/8', 'and 1 to 9999999 or "off"'],
    ['10.0.0.0/8=0', 'and 1 to 9999999 or "off"'],
    ['10.0.0.0/8=5=6', 'and 1 to 9999999 or "off"'],
    ['somewhere=5', 'is no address or range'],
    ['2001:db8::1=5', 'IPv6 is counted by /64'],
    ['2001:db8::/65=5', 'IPv6 is counted by /64'],
  ])('a rate of "%s" is refused', (entry, why) => {
    expect(() => addressRates([entry])).toThrow(why)
  })

  test('never more than the limit in a second, whatever is asked', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 40 }),
        async (all) => {
          const limiter = createLimiter({ perSecond: 100, keys: 10, now: () => Date.now() })
          const charges = await Promise.all(all.map((points) => limiter.charge('a', points)))
          let used = 0
          for (const [index, points] of all.entries()) {
            expect(charges[index]!.isAllowed).toBe(used + points <= 100)
            if (charges[index]!.isAllowed) used += points
          }
        },
      ),
      { numRuns: 50 },
    )
  })

  test('addresses beyond the known ones share one bucket until a second has passed', async () => {
    const limiter = createLimiter({ perSecond: 5, keys: 3, now: () => Date.now() })
    for (const address of ['a', 'b', 'c']) expect(await allowed(limiter, address, 9)).toBe(5)
    expect((await allowed(limiter, 'd', 3)) + (await allowed(limiter, 'e', 3))).toBe(5)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, 'e', 9)).toBe(5)
    expect(await allowed(limiter, 'd', 9)).toBe(5)
    expect(limiter.known).toBe(3)
  })

  test('whoever was never seen is not held for those that share a bucket', async () => {
    const limiter = createLimiter({ perSecond: 2, keys: 2, now: () => Date.now() })
    for (const address of ['a', 'b']) await limiter.charge(address, 1)
    vi.advanceTimersByTime(500)
    expect(await allowed(limiter, 'c', 9)).toBe(2)
    expect(limiter.held('d')).toBeDefined()
    vi.advanceTimersByTime(500)
    // The second of the first two is over: the next one gets one of its own.
    expect(limiter.held('d')).toBeUndefined()
    expect(await allowed(limiter, 'd', 9)).toBe(2)
  })

  test('off refuses nothing', async () => {
    const limiter = createLimiter({ perSecond: undefined, keys: 3, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 1_000)).toBe(1_000)
  })
})

describe('the address a request counts for', () => {
  const cases: [name: string, trusted: string[], remote: string, header: string, is: string][] = [
    ['no proxy is trusted: the header is not read', [], '9.9.9.9', '1.1.1.1', '9.9.9.9'],
    ['a stranger cannot speak for others', ['10.0.0.0/8'], '9.9.9.9', '1.1.1.1', '9.9.9.9'],
    ['last entry, written by the proxy', ['10.0.0.0/8'], '10.1.1.1', '6.6.6.6, 1.1.1.1', '1.1.1.1'],
    ['a chain of proxies', ['10.0.0.0/8'], '10.1.1.1', '6.6.6.6, 1.1.1.1, 10.2.2.2', '1.1.1.1'],
    ['all are proxies: the first', ['10.0.0.0/8'], '10.1.1.1', '10.3.3.3', '10.3.3.3'],
    ['no address: the proxy itself', ['10.0.0.0/8'], '10.1.1.1', '1.1.1.1, nonsense', '10.1.1.1'],
    ['IPv4 in IPv6', ['10.0.0.0/8'], '::ffff:10.1.1.1', '::ffff:1.1.1.1', '1.1.1.1'],
    ['hexadecimal IPv4 in IPv6', ['127.0.0.1'], '::ffff:7f00:1', '1.1.1.1', '1.1.1.1'],
    ['with a port', ['127.0.0.1'], '127.0.0.1', '1.1.1.1:443', '1.1.1.1'],
    ['IPv6 with brackets', ['::1/128'], '::1', '[2001:DB8::7]:443', '2001:db8::7'],
  ]
  test.each(cases)('%s', (_, trusted, remote, header, expected) => {
    expect(clientAddress(remote, header, trustedProxies(trusted))).toBe(expected)
  })

  test.each([['10.0.0.0/33'], ['10.0.0.0/8/8'], ['proxy.local'], ['10.0.0.0/'], ['']])(
    'range "%s" is refused',
    (range) => {
      expect(() => trustedProxies([range])).toThrow('is no address or range')
    },
  )

  const keys: [address: string, key: string][] = [
    ['1.2.3.4', '1.2.3.4'],
    ['2001:db8:0:7:aaaa::1', '2001:db8:0:7::/64'],
    ['2001:db8::7:0:0:0:1', '2001:db8:0:7::/64'],
    ['::1', '0:0:0:0::/64'],
    ['unknown', 'unknown'],
  ]
  test.each(keys)('%s counts under %s', (address, key) => {
    expect(limiterKey(address)).toBe(key)
  })

  test('loopback', () => {
    expect(['127.0.0.9', '::1', '::ffff:127.0.0.1'].every(isLoopback)).toBe(true)
    expect(['0.0.0.0', '10.0.0.1', 'localhost', '::'].some(isLoopback)).toBe(false)
  })
})
