/**
 * Contracts of curves by fast libraries give the outputs and faults of noble, also for edge cases
 * and wrong input.
 */
import { bls12_381 } from '@noble/curves/bls12-381.js'
import { bn254 } from '@noble/curves/bn254.js'
import { p256 } from '@noble/curves/nist.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { precompilesOf } from '../../../../engine/evm/precompiles/table.ts'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { bigintToBytes, concatBytes } from '../../../../engine/primitives/words.ts'
import { claimOf, trueClaim } from '../../../fixtures/noble/claims.ts'
import { NOBLE } from '../../../fixtures/noble/contracts.ts'
import { POINTS } from '../../../fixtures/noble/points.ts'
import { propertyRuns } from '../../../kit/property-runs.ts'

const TABLE = precompilesOf({ spec: 'osaka', chainId: 1n, precompiles: undefined })
const GAS = 1n << 40n
const noPoll = () => {}
/** The number of random runs besides the fixed ones; runs by hand have more. */
const RUNS = Number(process.env['PRECOMPILE_RUNS'] ?? propertyRuns(20))

const own = (address: number, input: Bytes): string => {
  const result = TABLE.get(address)!(input, GAS, noPoll)
  return 'error' in result ? result.error : bytesToHex(result.output)
}
function byNoble(address: number, input: Bytes): string {
  try {
    return bytesToHex(NOBLE.get(address)!.run(input, noPoll))
  } catch (error) {
    return (error as Error).message
  }
}
function check(address: number, input: Bytes): void {
  expect(own(address, input), bytesToHex(input)).toBe(byNoble(address, input))
}

/** Compares the fixed inputs, and random ones. */
function compare(address: number, input: fc.Arbitrary<Bytes>, fixed: readonly Bytes[] = []): void {
  for (const each of fixed) check(address, each)
  fc.assert(
    fc.property(input, (each) => check(address, each)),
    { numRuns: RUNS },
  )
}

const R = { bls: bls12_381.fields.Fr.ORDER, bn: bn254.fields.Fr.ORDER }
const P = { bls: bls12_381.fields.Fp.ORDER, bn: bn254.fields.Fp.ORDER }
const number = fc.bigInt({ min: 0n, max: (1n << 256n) - 1n })
const factorOf = (order: bigint) =>
  fc.oneof(fc.constantFrom(0n, 1n, 2n, order - 1n, order, order + 1n, (1n << 256n) - 1n), number)
const scalarOf = (order: bigint) => factorOf(order).map((k) => bigintToBytes(k, 32))

/**
 * Draws points that are mostly good. `bad` are bytes of invalid field elements, `elements` is the
 * number of elements in a point.
 */
function pointOf(
  kind: keyof typeof POINTS,
  {
    order,
    prime,
    bytes,
  }: { readonly order: bigint; readonly prime: bigint; readonly bytes: number },
): fc.Arbitrary<Bytes> {
  const { of, strange } = POINTS[kind]
  const strangers = strange()
  const length = of(1n).length
  const good = fc.oneof(
    fc.constantFrom(1n, 2n, order - 1n).map(of),
    number.map((k) => of(k % order)),
    fc.constant(new Uint8Array(length)),
  )
  const element = fc.nat(length / bytes - 1)
  const flipped = fc.tuple(good, fc.nat(length - 1), fc.nat(7)).map(([point, at, bit]) => {
    const bad = Uint8Array.from(point)
    bad[at]! ^= 1 << bit
    return bad
  })
  const tooLarge = fc.tuple(good, element).map(([point, at]) => {
    const bad = Uint8Array.from(point)
    bad.set(bigintToBytes(prime, bytes), at * bytes)
    return bad
  })
  const swapped = fc
    .tuple(good, good)
    .map(([a, b]) => concatBytes(a.subarray(0, length / 2), b.subarray(length / 2)))
  return fc.oneof(
    { weight: 12, arbitrary: good },
    { weight: 1, arbitrary: flipped },
    { weight: 1, arbitrary: tooLarge },
    { weight: 1, arbitrary: swapped },
    ...(strangers.length === 0 ? [] : [{ weight: 2, arbitrary: fc.constantFrom(...strangers) }]),
  )
}

const concat = (...parts: readonly fc.Arbitrary<Bytes>[]) =>
  fc.tuple(...parts).map((each) => concatBytes(...each))
/** Draws a list of any length, also an empty one. */
const listOf = (item: fc.Arbitrary<Bytes>, max: number) =>
  fc.array(item, { maxLength: max }).map((items) => concatBytes(...items))
const cut = (input: fc.Arbitrary<Bytes>) =>
  fc.tuple(input, fc.nat(40)).map(([bytes, less]) => bytes.subarray(0, -1 - less))

describe('the BN254 contracts', () => {
  const numbers = { order: R.bn, prime: P.bn, bytes: 32 }
  const [g1, g2] = [pointOf('bnG1', numbers), pointOf('bnG2', numbers)]
  const { bnG1, bnG2 } = POINTS

  test('add points like noble', () => {
    const [one, minusOne] = [bnG1.of(1n), bnG1.of(R.bn - 1n)]
    const edges = [concatBytes(one, one), concatBytes(one, minusOne), one, new Uint8Array(0)]
    compare(6, concat(g1, g1), edges)
    compare(6, cut(concat(g1, g1)))
  })
  test('multiply a point like noble', () => {
    compare(7, concat(g1, scalarOf(R.bn)))
    compare(7, cut(concat(g1, scalarOf(R.bn))))
  })
  test('compute pairings like noble', { timeout: 600_000 + RUNS * 1000 }, () => {
    const cancelling = [bnG1.of(6n), bnG2.of(1n), bnG1.of(R.bn - 2n), bnG2.of(3n)]
    const strangers = bnG2.strange().map((point) => concatBytes(bnG1.of(1n), point))
    const infinite = strangers.map((pair) => concatBytes(new Uint8Array(64), pair.subarray(64)))
    compare(8, listOf(concat(g1, g2), 6), [concatBytes(...cancelling), ...strangers, ...infinite])
    compare(8, cut(concat(g1, g2)))
  })
})

describe('the BLS12-381 contracts', () => {
  const numbers = { order: R.bls, prime: P.bls, bytes: 64 }
  const groups = [
    ['G1', 11, POINTS.blsG1, pointOf('blsG1', numbers)],
    ['G2', 13, POINTS.blsG2, pointOf('blsG2', numbers)],
  ] as const

  test.each(groups)('add points of %s like noble', (_, address, { of, strange }, point) => {
    const [one, minusOne] = [of(1n), of(R.bls - 1n)]
    const pairs = [one, ...strange()].flatMap((a) => strange().map((b) => concatBytes(a, b)))
    compare(address, concat(point, point), [concatBytes(one, minusOne), ...pairs])
    compare(address, cut(concat(point, point)))
  })
  test.each(groups)(
    'add products of %s like noble',
    { timeout: 600_000 + RUNS * 2000 },
    (_, at, kind, point) => {
      const term = concat(point, scalarOf(R.bls))
      const strangers = kind.strange().map((each) => concatBytes(each, bigintToBytes(5n, 32)))
      compare(at + 1, listOf(term, 6), strangers)
      compare(at + 1, cut(term))
      const many = Array.from({ length: 70 }, (_, index) =>
        concatBytes(kind.of(BigInt(index % 7)), bigintToBytes(R.bls - BigInt(index), 32)),
      )
      check(at + 1, concatBytes(...many))
    },
  )
  test('compute pairings like noble', { timeout: 600_000 + RUNS * 1000 }, () => {
    const { blsG1, blsG2 } = POINTS
    const cancelling = [blsG1.of(6n), blsG2.of(1n), blsG1.of(R.bls - 2n), blsG2.of(3n)]
    const strangers = [
      ...blsG1.strange().map((first) => concatBytes(first, blsG2.of(1n))),
      ...blsG2.strange().map((second) => concatBytes(blsG1.of(1n), second)),
      ...blsG2.strange().map((second) => concatBytes(new Uint8Array(128), second)),
    ]
    const pair = concat(groups[0][3], groups[1][3])
    compare(15, listOf(pair, 5), [concatBytes(...cancelling), ...strangers])
    compare(15, cut(pair))
  })

  const element = fc
    .oneof(
      fc.constantFrom(0n, 1n, P.bls - 1n, P.bls, (1n << 384n) - 1n, 1n << 384n),
      fc.bigInt({ min: 0n, max: P.bls - 1n }),
    )
    .map((n) => bigintToBytes(n, 64))
  test('map field elements to points like noble', () => {
    const small = [0n, 1n, P.bls - 1n].map((n) => bigintToBytes(n, 64))
    compare(16, element, small)
    compare(16, cut(element))
    compare(
      17,
      concat(element, element),
      small.flatMap((a) => small.map((b) => concatBytes(a, b))),
    )
    compare(17, cut(concat(element, element)))
  })
})

describe('the point evaluation contract', () => {
  const scalar = fc.oneof(
    fc.constantFrom(0n, 1n, R.bls - 1n),
    number.map((n) => n % R.bls),
  )
  const valid = fc.tuple(scalar, scalar, scalar).map((numbers) => trueClaim(...numbers))

  test('accepts true claims', () => {
    fc.assert(
      fc.property(valid, (input) => {
        expect(own(10, input)).toMatch(/^0x0{60}1000/)
      }),
      { numRuns: RUNS },
    )
    compare(10, valid)
  })
  test('gives the output or fault of noble for wrong claims', {
    timeout: 600_000 + RUNS * 1000,
  }, () => {
    const flipped = fc.tuple(valid, fc.nat(191), fc.nat(7)).map(([input, at, bit]) => {
      const bad = Uint8Array.from(input)
      bad[at]! ^= 1 << bit
      return at < 32
        ? bad
        : claimOf([32, 64, 96, 144].map((from, part) => bad.slice(from, [64, 96, 144, 192][part])))
    })
    const good = trueClaim(3n, 4n, 5n)
    const points = [0x00, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0].flatMap((flags) =>
      [
        0n,
        1n,
        4n,
        P.bls,
        (1n << 381n) - 1n,
        BigInt(bytesToHex(good.subarray(144))) & ((1n << 381n) - 1n),
      ].map((x) => {
        const point = bigintToBytes(x, 48)
        point[0]! |= flags
        return point
      }),
    )
    const parts = [
      good.slice(32, 64),
      good.slice(64, 96),
      good.slice(96, 144),
      good.slice(144),
    ] as const
    const strange = points.flatMap((point) => [
      claimOf([parts[0], parts[1], point, parts[3]]),
      claimOf([parts[0], parts[1], parts[2], point]),
    ])
    const large = hexToBytes(`0x${'ff'.repeat(32)}`)
    const scalars = [large, bigintToBytes(R.bls, 32)].flatMap((each) => [
      claimOf([each, parts[1], parts[2], parts[3]]),
      claimOf([parts[0], each, parts[2], parts[3]]),
    ])
    compare(10, flipped, [...strange, ...scalars, good.subarray(1), new Uint8Array(0)])
  })
})

describe('P256VERIFY', () => {
  const N = p256.Point.Fn.ORDER
  const word = (n: bigint) => bigintToBytes(n, 32)
  const secret = number.map((n) => (n % (N - 1n)) + 1n)
  const digest = fc
    .oneof(fc.constantFrom(0n, 1n, N, N - 1n, N + 1n, (1n << 256n) - 1n), number)
    .map(word)
  const signed = fc.tuple(secret, digest).map(([key, message]) => {
    const signature = p256.sign(message, word(key), { lowS: false, prehash: false })
    return concatBytes(message, signature, p256.getPublicKey(word(key), false).subarray(1))
  })

  test('accepts valid signatures', () => {
    fc.assert(
      fc.property(signed, (input) => {
        expect(own(256, input)).toBe(`0x${'1'.padStart(64, '0')}`)
      }),
      { numRuns: RUNS },
    )
    compare(256, signed)
  })
  test('gives the output of noble for changed and cut input', () => {
    const flipped = fc.tuple(signed, fc.nat(159), fc.nat(7)).map(([input, at, bit]) => {
      const bad = Uint8Array.from(input)
      bad[at]! ^= 1 << bit
      return bad
    })
    compare(256, flipped)
    compare(256, cut(signed))
  })
  test('gives the output of noble for edge cases of numbers and keys', () => {
    const { x, y } = p256.Point.BASE
    const key = concatBytes(word(x), word(y))
    const opposite = concatBytes(word(x), word(p256.Point.Fp.ORDER - y))
    const numbers = [0n, 1n, 2n, x % N, N - 1n, N, N + 1n].map(word)
    // The digest r makes the share of G equal to the key. The sum is then a doubling or infinity.
    for (const r of numbers)
      for (const s of numbers)
        for (const message of [word(0n), r, word(N - 1n)])
          for (const each of [key, opposite, new Uint8Array(64)])
            check(256, concatBytes(message, r, s, each))
  })
})
