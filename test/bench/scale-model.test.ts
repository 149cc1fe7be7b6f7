/**
 * Checks the arithmetic of bench/scale, and that each number that it calls measured stands in the
 * named place.
 */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  COSTS,
  costsOf,
  type Measured,
  type Measurement,
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

const measurements: readonly (readonly [string, Measurement])[] = Object.entries({
  ...REQUEST_MICROS,
  ...COSTS,
})
const measured = measurements.flatMap(([name, { measured: one }]): [string, Measured][] =>
  one === undefined ? [] : [[name, one]],
)
const stands = ({ page, line, text }: Measured): boolean =>
  readFileSync(page, 'utf8')
    .split('\n')
    .some((one) => one.includes(line) && one.includes(text))

test.each(measured)('the measured %s is on the page that it cites', (_, one) =>
  expect(stands(one)).toBe(true),
)
test('a number that is not on its page is found', () => {
  const [, one] = measured[0]!
  expect(stands({ ...one, text: '23,474' })).toBe(false)
})

test('the shares of the request mix add up to one', () => {
  const sum = Object.values(MIX).reduce((a, b) => a + b, 0)
  expect(sum).toBeCloseTo(1, 12)
})

const AT: Installation = {
  requestsPerSecond: 1_000_000,
  replicas: 100,
  flashblocksPerSecond: 5,
  cores: 4,
  frontThreads: 1,
  balancers: 4,
  balancerCores: 8,
  networkBits: 1e10,
  limitStore: 'redis',
}
/** Round numbers make the expected results easy to compute. */
const ROUND = {
  ...costsOf(),
  executedFlashblockMs: 40,
  frontMicros: 20,
  balancerMicros: 25,
  frameBytes: 50_000,
  redisChargeMicros: 10,
  redisAppendMicros: 10,
  redisReadMicros: 2,
}
const partOf = (name: string, at: Installation) =>
  partsOf(at, ROUND, MIX).find((part) => part.name === name)!

test('following takes the flashblocks per second times the cost of each', () => {
  expect(followingCores(AT, ROUND)).toBeCloseTo(0.2, 12)
})

test('the replicas use their cores for following and requests, up to a full rate', () => {
  const { used, there, fullAt } = partOf('cores of the replicas', AT)
  expect(there).toBe(400)
  expect(used).toBeCloseTo(100 * 0.2 + meanMicros(MIX), 9)
  expect(partOf('cores of the replicas', { ...AT, requestsPerSecond: fullAt }).used).toBeCloseTo(
    there,
    9,
  )
})

test('Redis charges each request, and sends each transaction to all replicas', () => {
  // A million requests take 10 µs each. A thousandth of them are sent on, for 10 µs and 100 times 2
  // µs each.
  expect(partOf('the thread of Redis', AT).used).toBeCloseTo(10 + 0.21, 9)
  expect(partOf('the thread of Redis', { ...AT, limitStore: 'memory' }).used).toBeCloseTo(0.21, 9)
})

test('a feed sends all bytes to all readers, whatever clients request', () => {
  expect(readerBits(AT, ROUND)).toBe(2e6)
  const { used, fullAt } = partOf('network of a feed', AT)
  expect(used).toBe(200)
  expect(fullAt).toBe(Number.POSITIVE_INFINITY)
})

test('the fullest part of an installation comes first', () => {
  const shares = partsOf(AT, ROUND, MIX).map(({ used, there }) => used / there)
  expect(shares).toEqual(shares.toSorted((a, b) => b - a))
  expect(partsOf(AT, ROUND, MIX)[0]!.name).toBe('the thread of Redis')
  expect(partsOf({ ...AT, limitStore: 'memory' }, ROUND, MIX)[0]!.name).toBe('cores of HAProxy')
})

// With one server the textbook's waiting time is load / (1 − load) times the service time.
// With two servers, half loaded, the textbook has B = 1/5 and C = 1/3.
test.each([
  ['one server, half loaded', 50, 10, 1, 10],
  ['one server, loaded to 0.9', 90, 10, 1, 90],
  ['two servers, half loaded', 100, 10, 2, 10 / 3],
  ['no requests', 0, 10, 3, 0],
  ['requests at full capacity', 200, 10, 2, Number.POSITIVE_INFINITY],
])(
  'the mean wait in a queue is that of the textbook: %s',
  (_, perSecond, serviceMs, servers, meanMs) => {
    expect(waits(perSecond, serviceMs, servers).meanMs).toBeCloseTo(meanMs, 9)
  },
)

test('a twentieth of requests waits at least ln(10) · 20 ms for a half loaded server', () => {
  expect(waits(50, 10, 1).p95Ms).toBeCloseTo(Math.log(10) * 20, 9)
  // Only one call in a hundred waits at all.
  expect(waits(1, 10, 1).p95Ms).toBe(0)
})
