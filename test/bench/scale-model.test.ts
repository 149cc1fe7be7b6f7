/** The arithmetic of bench/scale, and that what it calls measured stands where it says. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  COSTS,
  costsOf,
  type Figure,
  type Measured,
  MIX,
  REQUEST_MICROS,
} from '../../bench/scale/costs.ts'
import {
  followingCores,
  type Installation,
  meanMicros,
  partsOf,
  readerBits,
  waits,
} from '../../bench/scale/model.ts'

const figures: readonly (readonly [string, Figure])[] = Object.entries({
  ...REQUEST_MICROS,
  ...COSTS,
})
const measured = figures.flatMap(([name, { measured: one }]): [string, Measured][] =>
  one === undefined ? [] : [[name, one]],
)
const stands = ({ page, line, text }: Measured): boolean =>
  readFileSync(page, 'utf8')
    .split('\n')
    .some((one) => one.includes(line) && one.includes(text))

test.each(measured)('%s stands where it says', (_, one) => expect(stands(one)).toBe(true))
test('one that does not is found', () => {
  const [, one] = measured[0]!
  expect(stands({ ...one, text: '23,474' })).toBe(false)
})

test('shares of the requests are all of them', () => {
  const sum = Object.values(MIX).reduce((a, b) => a + b, 0)
  expect(sum).toBeCloseTo(1, 12)
})

const AT: Installation = {
  ...{ requestsPerSecond: 1_000_000, replicas: 100, flashblocksPerSecond: 5 },
  ...{ cores: 4, frontThreads: 1, balancers: 4, balancerCores: 8 },
  ...{ networkBits: 1e10, limitStore: 'redis' },
}
/** Round numbers. */
const ROUND = {
  ...costsOf(),
  ...{ executedFlashblockMs: 40, frontMicros: 20, balancerMicros: 25 },
  ...{ frameBytes: 50_000, redisChargeMicros: 10, redisAppendMicros: 10, redisReadMicros: 2 },
}
const partOf = (name: string, at: Installation) =>
  partsOf(at, ROUND, MIX).find((part) => part.name === name)!

test('following: flashblocks a second by what each costs', () => {
  expect(followingCores(AT, ROUND)).toBeCloseTo(0.2, 12)
})

test('cores of the replicas: following and requests, and the rate that fills them', () => {
  const { used, there, fullAt } = partOf('cores of the replicas', AT)
  expect(there).toBe(400)
  expect(used).toBeCloseTo(100 * 0.2 + meanMicros(MIX), 9)
  expect(partOf('cores of the replicas', { ...AT, requestsPerSecond: fullAt }).used).toBeCloseTo(
    there,
    9,
  )
})

test('Redis: a question for each request, and each transaction to all replicas', () => {
  // 10 µs of a million, and a thousandth of it told: 10 and 100 times 2 µs.
  expect(partOf('the thread of Redis', AT).used).toBeCloseTo(10 + 0.21, 9)
  expect(partOf('the thread of Redis', { ...AT, limitStore: 'memory' }).used).toBeCloseTo(0.21, 9)
})

test('network of a feed: all readers of all bytes, whatever clients ask', () => {
  expect(readerBits(AT, ROUND)).toBe(2e6)
  const { used, fullAt } = partOf('network of a feed', AT)
  expect(used).toBe(200)
  expect(fullAt).toBe(Number.POSITIVE_INFINITY)
})

test('the fullest part stands first', () => {
  const shares = partsOf(AT, ROUND, MIX).map(({ used, there }) => used / there)
  expect(shares).toEqual(shares.toSorted((a, b) => b - a))
  expect(partsOf(AT, ROUND, MIX)[0]!.name).toBe('the thread of Redis')
  expect(partsOf({ ...AT, limitStore: 'memory' }, ROUND, MIX)[0]!.name).toBe('cores of HAProxy')
})

// One server: the textbook's load / (1 − load) times the service; two, half loaded: B = 1/5, C = 1/3.
test.each([
  ['one server, half loaded', 50, 10, 1, 10],
  ['one server, loaded to 0.9', 90, 10, 1, 90],
  ['two servers, half loaded', 100, 10, 2, 10 / 3],
  ['nobody comes', 0, 10, 3, 0],
  ['as much comes as they do', 200, 10, 2, Number.POSITIVE_INFINITY],
])('a queue: %s', (_, perSecond, serviceMs, servers, meanMs) => {
  expect(waits(perSecond, serviceMs, servers).meanMs).toBeCloseTo(meanMs, 9)
})

test('a queue: of one server, half loaded, half wait; one in twenty for ln(10) times 20 ms', () => {
  expect(waits(50, 10, 1).p95Ms).toBeCloseTo(Math.log(10) * 20, 9)
  // One in a hundred waits at all.
  expect(waits(1, 10, 1).p95Ms).toBe(0)
})
