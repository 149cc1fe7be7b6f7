/** The limiter counts points for the address of each client. */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  clientAddress,
  isLoopback,
  limiterKey,
  trustedProxies,
} from '../../../rpc/limiter/address.ts'
import { addressRates } from '../../../rpc/limiter/address-rates.ts'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'

describe('the limiter', () => {
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

  test('allows 100 points per second from the first request, and refuses the rest', async () => {
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

  test('ends a second on time, even when a charge arrives at its end', async () => {
    let isTicking = false
    const limiter = createLimiter({
      perSecond: 2,
      keys: 1_000,
      now() {
        const now = Date.now()
        // A millisecond passes between two reads.
        if (isTicking) vi.setSystemTime(now + 1)
        return now
      },
    })
    // The address's second starts, and no point is used yet.
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

  test('keeps its seconds aligned with the first request of an address', async () => {
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
    // The address was forgotten, so its seconds start here.
    expect(await allowed(limiter, 'a', 150)).toBe(100)
    vi.advanceTimersByTime(999)
    expect(await allowed(limiter, 'a', 1)).toBe(0)
  })

  test('allows a batch as a whole or not at all, and a refused one uses no points', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    const charges = await Promise.all([
      limiter.charge('a', 70),
      limiter.charge('a', 40),
      limiter.charge('a', 30),
      limiter.charge('a', 1),
    ])
    expect(charges.map((charge) => charge.isAllowed)).toEqual([true, false, true, false])
  })

  test('subtracts debt from the following seconds, at most ten', async () => {
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

  test('reduces debt while an address is idle', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 1)).toBe(1)
    limiter.owe('a', 350)
    vi.advanceTimersByTime(4_000)
    // Seconds without requests paid 300 of the points.
    expect(await allowed(limiter, 'a', 150)).toBe(50)
  })

  test('throttles an address until its second ends after as many refusals as points', async () => {
    const limiter = createLimiter({ perSecond: 10, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 19)).toBe(10)
    expect(limiter.throttled('a')).toBeUndefined()
    vi.advanceTimersByTime(400)
    expect(await allowed(limiter, 'a', 1)).toBe(0)
    expect(limiter.throttled('a')).toEqual({ limit: 10, used: 10, cost: 1, retryAfterMs: 600 })
    expect(limiter.throttled('b')).toBeUndefined()
    vi.advanceTimersByTime(600)
    expect(limiter.throttled('a')).toBeUndefined()
    expect(await allowed(limiter, 'a', 11)).toBe(10)
  })

  test('credits a stall once to known addresses, and to no others', async () => {
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

  test('credits a stall even if it is longer than its memory of addresses', async () => {
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
    // The silence counts again from where it ended.
    vi.advanceTimersByTime(25_000)
    limiter.stalled(12_000)
    expect(await allowed(limiter, 'b', 2_000)).toBe(100)
  })

  test('credits a stall only to addresses that return soon after it', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 100)).toBe(100)
    expect(await allowed(limiter, 'b', 1)).toBe(1)
    vi.advanceTimersByTime(5_000)
    limiter.stalled(5_000)
    vi.advanceTimersByTime(1_001)
    expect(await allowed(limiter, 'a', 1_000)).toBe(100)
    vi.advanceTimersByTime(5_000)
    // Remaining credit of an earlier stall is not added to the next one.
    limiter.stalled(1_000)
    expect(await allowed(limiter, 'b', 1_000)).toBe(200)
    // Two stalls with less than a read's time between them both count.
    vi.advanceTimersByTime(1_500)
    limiter.stalled(1_000)
    expect(await allowed(limiter, 'a', 1_000)).toBe(300)
  })

  test('keeps the limit of each second and restores it, for any charges and times', async () => {
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

  test('supports separate rates for addresses, or none', async () => {
    const rateOf = addressRates(['10.1.0.0/16=30', '10.0.0.0/8=off', '2001:db8::/32=20'])
    const limiter = createLimiter({ perSecond: 100, rateOf, keys: 1_000, now: () => Date.now() })
    expect(await allowed(limiter, '10.1.0.1', 150)).toBe(30)
    expect(await allowed(limiter, '10.1.0.2', 150)).toBe(30)
    expect(await allowed(limiter, '10.2.0.1', 150)).toBe(150)
    expect(await allowed(limiter, '2001:db8:1:2::1', 15)).toBe(15)
    expect(await allowed(limiter, '2001:db8:1:2::2', 15)).toBe(5)
    expect(await allowed(limiter, '11.1.0.1', 150)).toBe(100)
    expect(limiter.throttled('10.1.0.1')).toMatchObject({ limit: 30 })
    expect(await limiter.standing('10.1.0.1')).toEqual({
      limit: 30,
      used: 30,
      owed: 0,
      resetMs: 1_000,
    })
    expect(await limiter.standing('10.2.0.1')).toBeUndefined()
    limiter.owe('10.2.0.1', 50)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, '10.2.0.1', 150)).toBe(150)
    expect(await allowed(limiter, '10.1.0.1', 150)).toBe(30)
  })

  test('can limit some addresses only', async () => {
    const rateOf = addressRates(['10.1.0.0/16=30'])
    const limiter = createLimiter({ perSecond: undefined, rateOf, keys: 10, now: () => Date.now() })
    expect(await allowed(limiter, '10.1.0.1', 150)).toBe(30)
    expect(await allowed(limiter, '11.1.0.1', 150)).toBe(150)
  })

  test('applies a changed rate from the next second on', async () => {
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
    ['10.0.0.0/8', 'where RATE is 1 to 9999999 or "off"'],
    ['10.0.0.0/8=0', 'where RATE is 1 to 9999999 or "off"'],
    ['10.0.0.0/8=5=6', 'where RATE is 1 to 9999999 or "off"'],
    ['somewhere=5', 'is not an address or a range'],
    ['2001:db8::1=5', 'IPv6 is counted by /64'],
    ['2001:db8::/65=5', 'IPv6 is counted by /64'],
  ])('refuses the rate "%s"', (entry, why) => {
    expect(() => addressRates([entry])).toThrow(why)
  })

  test('allows exactly the charges that fit in a second, whatever is requested', async () => {
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

  test('counts addresses above its maximum in one shared bucket for a second', async () => {
    const limiter = createLimiter({ perSecond: 5, keys: 3, now: () => Date.now() })
    for (const address of ['a', 'b', 'c']) expect(await allowed(limiter, address, 9)).toBe(5)
    expect((await allowed(limiter, 'd', 3)) + (await allowed(limiter, 'e', 3))).toBe(5)
    vi.advanceTimersByTime(1_000)
    expect(await allowed(limiter, 'e', 9)).toBe(5)
    expect(await allowed(limiter, 'd', 9)).toBe(5)
    expect(limiter.known).toBe(3)
  })

  test('does not throttle a new address for others in the shared bucket', async () => {
    const limiter = createLimiter({ perSecond: 2, keys: 2, now: () => Date.now() })
    for (const address of ['a', 'b']) await limiter.charge(address, 1)
    vi.advanceTimersByTime(500)
    expect(await allowed(limiter, 'c', 9)).toBe(2)
    expect(limiter.throttled('d')).toBeDefined()
    vi.advanceTimersByTime(500)
    // The second of the first two keys is over, so the next key gets its own second.
    expect(limiter.throttled('d')).toBeUndefined()
    expect(await allowed(limiter, 'd', 9)).toBe(2)
  })

  test('without a rate refuses nothing', async () => {
    const limiter = createLimiter({ perSecond: undefined, keys: 3, now: () => Date.now() })
    expect(await allowed(limiter, 'a', 1_000)).toBe(1_000)
  })
})

describe('the address that a request counts for', () => {
  const cases: [name: string, trusted: string[], remote: string, header: string, is: string][] = [
    ['the header is ignored without trusted proxies', [], '9.9.9.9', '1.1.1.1', '9.9.9.9'],
    [
      'the header is ignored from an untrusted address',
      ['10.0.0.0/8'],
      '9.9.9.9',
      '1.1.1.1',
      '9.9.9.9',
    ],
    [
      'the last entry is from the trusted proxy',
      ['10.0.0.0/8'],
      '10.1.1.1',
      '6.6.6.6, 1.1.1.1',
      '1.1.1.1',
    ],
    [
      'trusted proxies in the header are skipped',
      ['10.0.0.0/8'],
      '10.1.1.1',
      '6.6.6.6, 1.1.1.1, 10.2.2.2',
      '1.1.1.1',
    ],
    [
      'the first entry if all are trusted proxies',
      ['10.0.0.0/8'],
      '10.1.1.1',
      '10.3.3.3',
      '10.3.3.3',
    ],
    [
      'the proxy itself if the entry is no address',
      ['10.0.0.0/8'],
      '10.1.1.1',
      '1.1.1.1, nonsense',
      '10.1.1.1',
    ],
    ['IPv4 in IPv6', ['10.0.0.0/8'], '::ffff:10.1.1.1', '::ffff:1.1.1.1', '1.1.1.1'],
    ['hexadecimal IPv4 in IPv6', ['127.0.0.1'], '::ffff:7f00:1', '1.1.1.1', '1.1.1.1'],
    ['an address with a port', ['127.0.0.1'], '127.0.0.1', '1.1.1.1:443', '1.1.1.1'],
    ['IPv6 with brackets', ['::1/128'], '::1', '[2001:DB8::7]:443', '2001:db8::7'],
  ]
  test.each(cases)(
    'is taken from the socket or the header: %s',
    (_, trusted, remote, header, expected) => {
      expect(clientAddress(remote, header, trustedProxies(trusted))).toBe(expected)
    },
  )

  test.each([['10.0.0.0/33'], ['10.0.0.0/8/8'], ['proxy.local'], ['10.0.0.0/'], ['']])(
    'cannot be configured with the range "%s"',
    (range) => {
      expect(() => trustedProxies([range])).toThrow('is not an address or a range')
    },
  )

  const keys: [address: string, key: string][] = [
    ['1.2.3.4', '1.2.3.4'],
    ['2001:db8:0:7:aaaa::1', '2001:db8:0:7::/64'],
    ['2001:db8::7:0:0:0:1', '2001:db8:0:7::/64'],
    ['::1', '0:0:0:0::/64'],
    ['unknown', 'unknown'],
  ]
  test.each(keys)('has a limiter key: %s has %s', (address, key) => {
    expect(limiterKey(address)).toBe(key)
  })

  test('is recognized as loopback', () => {
    expect(['127.0.0.9', '::1', '::ffff:127.0.0.1'].every(isLoopback)).toBe(true)
    expect(['0.0.0.0', '10.0.0.1', 'localhost', '::'].some(isLoopback)).toBe(false)
  })
})
