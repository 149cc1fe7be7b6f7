/**
 * Precompiled contracts: a sample of go-ethereum's vectors (CONFORMANCE_DIR, precompiles), and the
 * changes of OP forks.
 */
import { createHash, createSign, generateKeyPairSync } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FORKS, type ForkRow } from '../../engine/chainspec/forks.ts'
import type { EvmRules } from '../../engine/chainspec/types.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { bigintToBytes, bytesToBigint } from '../../engine/primitives/words.ts'
import { CURVES } from '../fixtures/curve-inputs.ts'
import { describeEngines } from '../fixtures/engines.ts'
import {
  areVectorsPresent,
  runPrecompile as runOn,
  runVector,
  VECTOR_FILES,
  VECTORS,
  vectorsOf,
} from '../fixtures/precompile-vectors.ts'
import { BLOCK, bytes, message, PRAGUE, word, world } from '../fixtures/world.ts'

describeEngines((engine) => {
  const runPrecompile = (
    precompile: number,
    input: Uint8Array,
    rules: Omit<EvmRules, 'chainId'>,
    gas?: bigint,
  ) => runOn(engine, { precompile, input, rules, ...(gas === undefined ? {} : { gas }) })

  describe.skipIf(!areVectorsPresent)(`a vector of ${VECTORS}`, () => {
    test.each(VECTOR_FILES)('has the expected result: %s', async (...file) => {
      const all = vectorsOf(file)
      const [, , , sample] = file
      const every = Math.max(1, Math.floor(all.length / sample))
      for (const vector of all.filter((_, index) => index % every === 0).slice(0, sample)) {
        const { result, expected } = await runVector(engine, file, vector)
        expect(result, vector.Name).toEqual(expected)
      }
    })
  })
  if (!areVectorsPresent)
    test('the vectors of precompiled contracts need CONFORMANCE_DIR', ({ skip }) => skip())

  describe('MODEXP', () => {
    const length = (bytes: Uint8Array) => word(BigInt(bytes.length))
    const input = (base: Uint8Array, exponent: Uint8Array, modulus: Uint8Array) =>
      Buffer.concat([length(base), length(exponent), length(modulus), base, exponent, modulus])
    const rules = { spec: 'prague', precompiles: undefined } as const

    test('gives the power of repeated multiplication', async () => {
      const number = fc.uint8Array({ maxLength: 40 })
      const exponents = fc.oneof(fc.uint8Array({ maxLength: 2 }), fc.constant(bytes('00010001')))
      await fc.assert(
        fc.asyncProperty(number, exponents, number, async (base, exponent, modulus) => {
          const m = bytesToBigint(modulus)
          let power = m === 0n ? 0n : 1n % m
          for (let n = bytesToBigint(exponent); m > 0n && n > 0n; n--)
            power = (power * bytesToBigint(base)) % m
          expect(await runPrecompile(5, input(base, exponent, modulus), rules)).toMatchObject({
            output: bytesToHex(bigintToBytes(power, modulus.length)),
          })
        }),
        { numRuns: 60 },
      )
    })

    test('reads missing input as zero', async () => {
      const full = input(bytes('03'), bytes('0200'), bytes('ff00'))
      const cut = full.subarray(0, -1)
      expect(await runPrecompile(5, cut, rules)).toEqual(await runPrecompile(5, full, rules))
      expect(await runPrecompile(5, full.subarray(0, 98), rules)).toMatchObject({
        output: '0x0000',
      })
    })

    test('accepts an exponent of 400,000 bytes that is paid for', async () => {
      // A single number that is shifted bit by bit would take a minute.
      const exponent = new Uint8Array(400_000).fill(0xff)
      const result = await runPrecompile(5, input(bytes('03'), exponent, bytes('fffffffb')), rules)
      // 3 to the power of 2^3200000 − 1: the exponent modulo the order of the prime field.
      const order = 0xfffffffan
      let power = 1n
      for (let bit = 0; bit < 3_200_000; bit++) power = (power * 2n) % order
      expect(result).toMatchObject({ output: bytesToHex(modpow(3n, power - 1n, order + 1n)) })
    })
  })

  const repeated = <T>(item: T, times: number): T[] => Array.from({ length: times }, () => item)

  function modpow(base: bigint, exponent: bigint, modulus: bigint): Uint8Array {
    let [result, square] = [1n, base]
    for (let rest = exponent; rest > 0n; rest >>= 1n) {
      if (rest & 1n) result = (result * square) % modulus
      square = (square * square) % modulus
    }
    return bigintToBytes(result, 4)
  }

  describe('a contract of curves', () => {
    const rules = { spec: 'prague', precompiles: undefined } as const
    const sums = [
      ['G1', 12, CURVES.sumG1],
      ['G2', 14, CURVES.sumG2],
    ] as const
    test.each(sums)(
      'gives a sum of many terms in %s that equals one product',
      async (_, precompile, input) => {
        const terms = Array.from(
          { length: 19 },
          (_, index) => [BigInt(index + 1), 1n << 200n] as const,
        )
        const [many, one] = [input(terms), input([[190n, 1n << 200n]])]
        const { output } = (await runPrecompile(precompile, one, rules)) as { output: string }
        expect(await runPrecompile(precompile, many, rules)).toMatchObject({ output })
      },
    )

    const pairings = [
      ['BLS12-381', 15, CURVES.blsPairs, CURVES.order.bls],
      ['BN254', 8, CURVES.bnPairs, CURVES.order.bn],
    ] as const
    test.each(pairings)(
      'accepts pairings of %s that cancel out, and only these',
      async (_, precompile, input, order) => {
        // Σ ab = 1 + 2 + … + 9, less 45.
        const pairs = Array.from({ length: 9 }, (_, index) => [BigInt(index + 1), 1n] as const)
        const word = async (given: Uint8Array) =>
          ((await runPrecompile(precompile, given, rules)) as { output: string }).output
        const cancelled = input([...pairs, [order - 9n, 5n]])
        const infinite = new Uint8Array(input([[1n, 1n]]).length)
        expect(await word(cancelled)).toBe(`0x${'1'.padStart(64, '0')}`)
        expect(await word(Buffer.concat([infinite, cancelled]))).toBe(`0x${'1'.padStart(64, '0')}`)
        expect(await word(input([...pairs, [order - 9n, 4n]]))).toBe(`0x${'0'.repeat(64)}`)
      },
    )

    test.each(pairings)(
      'refuses a point that is not on the curve %s',
      async (_, precompile, input) => {
        const last = Buffer.from(input([[1n, 1n]]))
        last[last.length - 1]! ^= 1
        const bad = Buffer.concat([input(Array.from({ length: 5 }, () => [1n, 1n])), last])
        expect(await runPrecompile(precompile, bad, rules)).toMatch(/point(:| is) not on curve/)
      },
    )
  })

  describe('a deadline', () => {
    const blake = new Uint8Array(213)
    blake.fill(0xff, 0, 3)
    const exponent = Buffer.concat([
      word(1n),
      word(500_000n),
      word(1n),
      Buffer.alloc(500_002, 0xff),
    ])
    const cases: [name: string, precompile: number, input: Uint8Array][] = [
      ['many rounds of BLAKE2F', 9, blake],
      ['a long exponent', 5, exponent],
      ['a long sum in G1', 12, CURVES.sumG1(repeated([3n, 1n << 250n], 60))],
      ['a long sum in G2', 14, CURVES.sumG2(repeated([3n, 1n << 250n], 60))],
      ['many pairings of BLS12-381', 15, CURVES.blsPairs(repeated([3n, 5n], 30))],
      ['many pairings of BN254', 8, CURVES.bnPairs(repeated([3n, 5n], 30))],
    ]
    test.each(cases)('stops %s during the contract', async (_, precompile, input) => {
      const session = engine.openSession(world({}), BLOCK, { ...PRAGUE, chainId: 1n })
      session.startTransaction()
      const to = hexToBytes(`0x${precompile.toString(16).padStart(40, '0')}`)
      let polls = 0
      const limits = { isExpired: () => ++polls > 5 }
      expect(await session.run(message({ to, input, gas: 10_000_000_000n }), limits)).toEqual({
        status: 'stopped',
        why: 'deadline',
      })
      expect(polls).toBe(6)
    })

    test('is checked at each call of a contract, as few steps may cost much time', async () => {
      // A loop of JUMPDEST, STATICCALL of the hash at 2 with empty input, and POP.
      const code = '5b 5f 5f 5f 5f 6002 5a fa 50 5f 56'
      const session = engine.openSession(world({ 2: { code } }), BLOCK, { ...PRAGUE, chainId: 1n })
      const calls = async (max: number) => {
        session.startTransaction()
        let polls = 0
        const limits = { isExpired: () => ++polls > max, fuel: 1_000 }
        return session.run(message({ gas: 10_000_000n }), limits)
      }
      // A thousand steps are less than one slice. The fuel would end them if calls did not poll the
      // deadline.
      expect(await calls(20)).toEqual({ status: 'stopped', why: 'deadline' })
      expect(await calls(2_000)).toEqual({ status: 'stopped', why: 'fuel' })
    })
  })

  describe('the rules of an OP fork', () => {
    const forks = ['fjord', 'granite', 'isthmus', 'jovian', 'karst'] as const
    const changesOf = (name: (typeof forks)[number]) =>
      (FORKS as readonly ForkRow[]).find((fork) => fork.name === name)!.changes.precompiles

    test.each(forks)(
      'give P256VERIFY a price in %s: 3450 gas, from Karst on 6900, none in plain Prague',
      async (fork) => {
        const price = fork === 'karst' ? 6900 : 3450
        const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
        const signature = createSign('sha256')
          .update('hello')
          .sign({ key: privateKey, dsaEncoding: 'ieee-p1363' })
        const { x, y } = publicKey.export({ format: 'jwk' })
        const input = Buffer.concat([
          createHash('sha256').update('hello').digest(),
          signature,
          Buffer.from(x!, 'base64url'),
          Buffer.from(y!, 'base64url'),
        ])
        const rules = { spec: 'prague', precompiles: changesOf(fork) }
        expect(await runPrecompile(0x100, input, rules)).toEqual({
          output: `0x${'1'.padStart(64, '0')}`,
          gas: price,
        })
        expect(await runPrecompile(0x100, input, rules, BigInt(price - 1))).toBe('out of gas')
        expect(await runPrecompile(0x100, input.fill(0, 0, 1), rules)).toMatchObject({ gas: price })
        expect(
          await runPrecompile(0x100, input, { spec: 'prague', precompiles: undefined }),
        ).toEqual({
          output: '0x',
          gas: 0,
        })
      },
    )

    const limits: [precompile: number, fork: (typeof forks)[number], max: number, unit: number][] =
      [
        [8, 'granite', 112_687, 192],
        [8, 'isthmus', 112_687, 192],
        [8, 'jovian', 81_984, 192],
        [8, 'karst', 57_600, 192],
        [12, 'isthmus', 513_760, 160],
        [12, 'jovian', 288_960, 160],
        [12, 'karst', 288_960, 160],
        [14, 'isthmus', 488_448, 288],
        [14, 'jovian', 278_784, 288],
        [14, 'karst', 278_784, 288],
        [15, 'isthmus', 235_008, 384],
        [15, 'jovian', 156_672, 384],
        [15, 'karst', 156_672, 384],
      ]
    test.each(limits)(
      'let contract %i in %s accept %i bytes, but not one element more',
      async (precompile, fork, max, unit) => {
        const maxCount = Math.floor(max / unit)
        const rules = { spec: 'prague', precompiles: changesOf(fork) }
        // Points at infinity cost gas but no time.
        const enough = 10_000_000_000n
        expect(
          await runPrecompile(precompile, new Uint8Array(maxCount * unit), rules, enough),
        ).toMatchObject({
          gas: expect.any(Number),
        })
        expect(
          await runPrecompile(precompile, new Uint8Array((maxCount + 1) * unit), rules, enough),
        ).toBe(precompile === 8 ? 'bad elliptic curve pairing input size' : 'invalid input length')
      },
    )
  })
})
