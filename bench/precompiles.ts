/**
 * Measures precompiled contracts in Mgas/s of processor time on the most expensive kinds of input.
 * The best of a few rounds counts.
 * Usage: npm run bench:precompiles [-- PART_OF_A_NAME]
 */
import { p256 } from '@noble/curves/nist.js'
import { precompilesOf } from '../engine/evm/precompiles/table.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { hexToBytes } from '../engine/primitives/hex.ts'
import { bigintToBytes, concatBytes } from '../engine/primitives/words.ts'
import { CURVES } from '../test/fixtures/curve-inputs.ts'
import { trueClaim } from '../test/fixtures/noble/claims.ts'

const ROUNDS = 5
const ROUND_US = 100_000
/** At a lower speed, a transaction with a full block's gas takes too long for a flashblock. */
const WANTED = 25

const tableOf = (spec: string, p256VerifyGas?: bigint) =>
  precompilesOf({
    spec,
    chainId: 1n,
    precompiles: p256VerifyGas === undefined ? undefined : { p256VerifyGas, maxInputBytes: {} },
  })
const TABLES = { prague: tableOf('prague', 3450n), osaka: tableOf('osaka') } as const

const filled = (bytes: number, value = 0xa5): Bytes => new Uint8Array(bytes).fill(value)
const word = (n: bigint | number): Bytes => bigintToBytes(BigInt(n), 32)
const FACTOR = (1n << 253n) + 12_345n

function power(bytes: number, exponent: Bytes): Bytes {
  const lengths = [bytes, exponent.length, bytes].map(word)
  return concatBytes(...lengths, filled(bytes), exponent, filled(bytes, 0xff))
}

function blake2f(rounds: number): Bytes {
  const input = filled(213, 1)
  new DataView(input.buffer).setUint32(0, rounds)
  return input
}

function signed(): Bytes {
  const [key, digest] = [filled(32, 7), filled(32)]
  const signature = p256.sign(digest, key, { lowS: false, prehash: false })
  return concatBytes(digest, signature, p256.getPublicKey(key, false).subarray(1))
}

/** A signature with r as an x coordinate of the curve, that of the generator. */
const RECOVERABLE = concatBytes(
  filled(32),
  word(27),
  hexToBytes('0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798'),
  word(12_345),
)

const terms = (count: number) =>
  Array.from({ length: count }, (_, index) => [BigInt(index + 3), FACTOR - BigInt(index)] as const)
const bnPoints = CURVES.bnPairs([[3n, 5n]]).subarray(0, 64)
const blsPair = CURVES.blsPairs([[3n, 5n]])
const [blsG1, blsG2] = [blsPair.subarray(0, 128), blsPair.subarray(128)]
const element = concatBytes(new Uint8Array(16), filled(48, 0x15))

type Case = readonly [name: string, spec: keyof typeof TABLES, address: number, input: Bytes]
const CASES: readonly Case[] = [
  ['ECRECOVER', 'prague', 1, RECOVERABLE],
  ['SHA256, 32 bytes', 'prague', 2, filled(32)],
  ['SHA256, 16 kB', 'prague', 2, filled(16_384)],
  ['RIPEMD160, 32 bytes', 'prague', 3, filled(32)],
  ['RIPEMD160, 16 kB', 'prague', 3, filled(16_384)],
  ['IDENTITY, 32 bytes', 'prague', 4, filled(32)],
  ['IDENTITY, 16 kB', 'prague', 4, filled(16_384)],
  ...(['prague', 'osaka'] as const).flatMap((spec): Case[] => [
    [`MODEXP, 8 bytes, exponent of 64, ${spec}`, spec, 5, power(8, filled(64, 0xff))],
    [`MODEXP, 16 bytes, ${spec}`, spec, 5, power(16, filled(32, 0xff))],
    [`MODEXP, 32 bytes, ${spec}`, spec, 5, power(32, filled(32, 0xff))],
    [`MODEXP, 256 bytes, 65537, ${spec}`, spec, 5, power(256, hexToBytes('0x010001'))],
    [`MODEXP, 256 bytes, ${spec}`, spec, 5, power(256, filled(256, 0xff))],
    [`MODEXP, 1024 bytes, ${spec}`, spec, 5, power(1024, filled(32, 0xff))],
  ]),
  ['BN254 sum', 'prague', 6, concatBytes(bnPoints, bnPoints)],
  ['BN254 product', 'prague', 7, concatBytes(bnPoints, word(FACTOR))],
  ['BN254 pairing of 1', 'prague', 8, CURVES.bnPairs(terms(1))],
  ['BN254 pairing of 2', 'prague', 8, CURVES.bnPairs(terms(2))],
  ['BN254 pairing of 32', 'prague', 8, CURVES.bnPairs(terms(32))],
  ['BLAKE2F, 12 rounds', 'prague', 9, blake2f(12)],
  ['BLAKE2F, 100,000 rounds', 'prague', 9, blake2f(100_000)],
  ['point evaluation', 'prague', 10, trueClaim(FACTOR, 77n, 99n)],
  ['BLS12-381 sum in G1', 'prague', 11, concatBytes(blsG1, blsG1)],
  ['BLS12-381 product in G1', 'prague', 12, CURVES.sumG1(terms(1))],
  ['BLS12-381 32 products in G1', 'prague', 12, CURVES.sumG1(terms(32))],
  ['BLS12-381 128 products in G1', 'prague', 12, CURVES.sumG1(terms(128))],
  ['BLS12-381 sum in G2', 'prague', 13, concatBytes(blsG2, blsG2)],
  ['BLS12-381 product in G2', 'prague', 14, CURVES.sumG2(terms(1))],
  ['BLS12-381 32 products in G2', 'prague', 14, CURVES.sumG2(terms(32))],
  ['BLS12-381 128 products in G2', 'prague', 14, CURVES.sumG2(terms(128))],
  ['BLS12-381 pairing of 1', 'prague', 15, CURVES.blsPairs(terms(1))],
  ['BLS12-381 pairing of 2', 'prague', 15, CURVES.blsPairs(terms(2))],
  ['BLS12-381 pairing of 32', 'prague', 15, CURVES.blsPairs(terms(32))],
  ['BLS12-381 map to G1', 'prague', 16, element],
  ['BLS12-381 map to G2', 'prague', 17, concatBytes(element, element)],
  ['P256VERIFY, 6,900 gas', 'osaka', 256, signed()],
  ['P256VERIFY, 3,450 gas', 'prague', 256, signed()],
]

for (const [name, spec, address, input] of CASES) {
  if (!name.includes(process.argv[2] ?? '')) continue
  const contract = TABLES[spec].get(address)!
  const run = () => contract(input, 1n << 50n, () => {})
  const first = run()
  if ('error' in first) throw new Error(`${name}: ${first.error}`)
  const us = Math.min(...Array.from({ length: ROUNDS }, () => timeOf(run)))
  const speed = Number(first.gasUsed) / us
  const remark = speed < WANTED ? '  below 25' : ''
  console.log(
    `${name.padEnd(40)}${first.gasUsed.toString().padStart(10)} gas${us.toFixed(1).padStart(10)} µs${speed.toFixed(1).padStart(9)} Mgas/s${remark}`,
  )
}

function timeOf(run: () => void): number {
  const start = process.cpuUsage()
  let [runs, used] = [0, 0]
  while (used < ROUND_US) {
    run()
    runs++
    const { user, system } = process.cpuUsage(start)
    used = user + system
  }
  return used / runs
}
