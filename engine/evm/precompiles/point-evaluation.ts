/**
 * Point evaluation (EIP-4844): proves that a committed polynomial has the value y at z. The input
 * is versioned hash, z and y in a word each, then commitment and proof. The latter two are
 * compressed points of BLS12-381. The trusted setup is needed only for [τ]G2.
 */
import { hash } from 'node:crypto'
import type { Bytes } from '../../primitives/bytes.ts'
import {
  bigintToBytes,
  bytesToBigint,
  compareBytes,
  concatBytes,
  equalBytes,
} from '../../primitives/words.ts'
import { bls12, FIELD, g1 } from './bls12-points.ts'
import { type Contract, Fault, fixed, lazily } from './contract.ts'
import { FP_BYTES, FR_BYTES, G1_BYTES, G2_BYTES, GT_BYTES } from './mcl.ts'

export const pointEvaluation: Contract = {
  gas: fixed(50_000n),
  run(input) {
    if (input.length !== 192) throw new Fault('invalid input length')
    const [commitment, proof] = [input.subarray(96, 144), input.subarray(144)]
    if (!equalBytes(versionedHash(commitment), input.subarray(0, 32)))
      throw new Fault('mismatched versioned hash')
    const { claimed, opening, minusY, z } = buffers()
    readScalar(input.subarray(64, 96), minusY)
    bls12().mclBnFr_neg(minusY, minusY)
    readScalar(input.subarray(32, 64), z)
    decompress(commitment, claimed)
    decompress(proof, opening)
    if (!isProven()) throw notVerified("can't verify opening proof")
    return concatBytes(bigintToBytes(FIELD_ELEMENTS, 32), ORDER)
  },
}

/** Field elements of a blob. */
const FIELD_ELEMENTS = 4096n
const ORDER = bigintToBytes(0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001n, 32)
/**
 * Coordinates of G2's generator and of the ceremony's [τ]G2 (g2_monomial[1] of trusted_setup.json).
 */
const GENERATOR_G2 = [
  0x024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8n,
  0x13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7en,
  0x0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801n,
  0x0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79ben,
] as const
const TAU_G2 = [
  0x185cbfee53492714734429b7b38608e23926c911cceceac9a36851477ba4c60b087041de621000edc98edada20c1def2n,
  0x15bfd7dd8cdeb128843bc287230af38926187075cbfbefa81009a2ce615ac53d2914e5870cb452d2afaaab24f3499f72n,
  0x014353bdb96b626dd7d5ee8599d1fca2131569490e28de18e82451a496a9c9794ce26d105941f383ee689bfbbb832a99n,
  0x1666c54b0a32529503432fcae0181b4bef79de09fc63671fda5ed1ba9bfa07899495346f3d7ac9cd23048ef30d0a154fn,
] as const
const GENERATOR_G1 = [
  0x17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bbn,
  0x08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1n,
] as const

/**
 * Buffers in mcl's memory: scalars −y and z, points, and the precomputed lines of the two constant
 * points of G2.
 */
const buffers = lazily(() => {
  const mcl = bls12()
  const { scratch } = mcl
  const lineBytes = mcl.mclBn_getUint64NumToPrecompute() * 8
  const [scalars, fixedPoint] = [scratch(2 * FR_BYTES), scratch(G2_BYTES)]
  const linesOf = (coordinates: readonly bigint[]) => {
    for (const [index, coordinate] of coordinates.entries())
      mcl.putElement(fixedPoint + index * FP_BYTES, bigintToBytes(coordinate, FP_BYTES))
    mcl.finishG2(fixedPoint)
    const lines = scratch(lineBytes)
    mcl.mclBn_precomputeG2(lines, fixedPoint)
    return lines
  }
  const generator = scratch(G1_BYTES)
  for (const [index, coordinate] of GENERATOR_G1.entries())
    mcl.putElement(generator + index * FP_BYTES, bigintToBytes(coordinate, FP_BYTES))
  mcl.finishG1(generator)
  return {
    minusY: scalars,
    z: scalars + FR_BYTES,
    generator,
    claimed: scratch(G1_BYTES),
    opening: scratch(G1_BYTES),
    terms: scratch(2 * G1_BYTES),
    left: scratch(G1_BYTES),
    square: scratch(FP_BYTES),
    product: scratch(GT_BYTES),
    linesOfGenerator: linesOf(GENERATOR_G2),
    linesOfTau: linesOf(TAU_G2),
  }
})

function versionedHash(commitment: Bytes): Bytes {
  const bytes = Uint8Array.from(hash('sha256', commitment, 'buffer'))
  bytes[0] = 1
  return bytes
}

/** Checks e(C − y·G1 + z·π, G2) · e(−π, [τ]G2) = 1. */
function isProven(): boolean {
  const mcl = bls12()
  const { claimed, opening, minusY, generator, terms, left, product } = buffers()
  const { linesOfGenerator, linesOfTau } = buffers()
  // The points are copied because the multiplication overwrites them.
  mcl.mclBnG1_normalize(terms, generator)
  mcl.mclBnG1_normalize(terms + G1_BYTES, opening)
  mcl.mclBnG1_mulVec(left, terms, minusY, 2)
  mcl.mclBnG1_add(left, left, claimed)
  mcl.mclBnG1_normalize(left, left)
  mcl.mclBnG1_neg(opening, opening)
  // A pairing with the point at infinity is 1.
  const [isLeft, isRight] = [left, opening].map((point) => mcl.mclBnG1_isZero(point) === 0)
  if (!isLeft || !isRight) return isLeft === isRight
  mcl.mclBn_precomputedMillerLoop2(product, left, linesOfGenerator, opening, linesOfTau)
  mcl.mclBn_finalExp(product, product)
  return mcl.mclBnGT_isOne(product) === 1
}

function readScalar(bytes: Bytes, to: number): void {
  if (compareBytes(bytes, ORDER) >= 0)
    throw notVerified('scalar is not canonical when interpreted as a big integer in big-endian')
  bls12().putScalar(to, bytes)
}

/**
 * Reads 48 bytes: three flags (compressed, infinity, larger y) and x. Checks come in go-ethereum's
 * order.
 */
function decompress(bytes: Bytes, to: number): void {
  const mcl = bls12()
  const flags = bytes[0]! >> 5
  if (flags === 1 || flags === 3 || flags === 7) throw notVerified('invalid point encoding')
  if (flags < 4) throw notVerified('short buffer')
  const x = Uint8Array.from(bytes)
  x[0]! &= 0x1f
  const value = bytesToBigint(x)
  if (flags === 6) {
    if (value !== 0n) throw notVerified('invalid infinity point encoding')
    mcl.mclBnG1_clear(to)
    return
  }
  if (value >= FIELD) throw notVerified('invalid fp.Element encoding')
  mcl.putElement(to, x)
  if (!solveForY(to)) throw notVerified("invalid compressed coordinate: square root doesn't exist")
  const y = new Uint8Array(FP_BYTES)
  mcl.getElement(to + FP_BYTES, y)
  const isLarger = bytesToBigint(y) > FIELD / 2n
  if (isLarger !== (flags === 5)) mcl.mclBnFp_neg(to + FP_BYTES, to + FP_BYTES)
  mcl.finishG1(to)
  if (g1().isInSubgroup(to) !== 1) throw notVerified('invalid point: subgroup check failed')
}

/**
 * Solves y² = x³ + 4.
 * @returns false if there is no solution
 */
function solveForY(at: number): boolean {
  const mcl = bls12()
  const { square } = buffers()
  const y = at + FP_BYTES
  mcl.mclBnFp_setInt32(y, 4)
  mcl.mclBnFp_sqr(square, at)
  mcl.mclBnFp_mul(square, square, at)
  mcl.mclBnFp_add(square, square, y)
  return mcl.mclBnFp_squareRoot(y, square) === 0
}

const notVerified = (why: string) => new Fault(`error verifying kzg proof: ${why}`)
