/**
 * Point evaluation (EIP-4844): that a polynomial committed to has the value y at z. Versioned hash, z, y in a word each, commitment and
 * proof as compressed points of BLS12-381. Of the trusted setup only [τ]G2 is needed.
 */
import { hash } from 'node:crypto'
import { bls12_381 } from '@noble/curves/bls12-381.js'
import type { Bytes } from '../../primitives/bytes.ts'
import { bigintToBytes, bytesToBigint, concatBytes, equalBytes } from '../../primitives/words.ts'
import { type Contract, Fault, fixed } from './contract.ts'

export const pointEvaluation: Contract = {
  gas: fixed(50_000n),
  run(input) {
    if (input.length !== 192) throw new Fault('invalid input length')
    const [commitment, proof] = [input.subarray(96, 144), input.subarray(144)]
    if (!equalBytes(versionedHash(commitment), input.subarray(0, 32)))
      throw new Fault('mismatched versioned hash')
    const y = scalarAt(input, 64)
    const z = scalarAt(input, 32)
    if (!isProven({ commitment: decompress(commitment), z, y, proof: decompress(proof) }))
      throw notVerified("can't verify opening proof")
    return FIELD_ELEMENTS_AND_MODULUS
  },
}

const { G1, G2, fields } = bls12_381
type Point = typeof G1.Point.BASE
const ORDER = fields.Fr.ORDER
/** 4096 elements of a blob, and what they are numbers modulo. */
const FIELD_ELEMENTS_AND_MODULUS = concatBytes(bigintToBytes(4096n, 32), bigintToBytes(ORDER, 32))

function versionedHash(commitment: Bytes): Bytes {
  const bytes = Uint8Array.from(hash('sha256', commitment, 'buffer'))
  bytes[0] = 1
  return bytes
}

/** e(C − y·G1 + z·π, G2) · e(−π, [τ]G2) = 1 */
function isProven(claim: {
  readonly commitment: Point
  readonly z: bigint
  readonly y: bigint
  readonly proof: Point
}): boolean {
  const { commitment, z, y, proof } = claim
  const value = G1.Point.BASE.multiplyUnsafe((ORDER - y) % ORDER)
  const left = commitment.add(value).add(proof.multiplyUnsafe(z))
  const pairs = [
    { g1: left, g2: G2.Point.BASE },
    { g1: proof.negate(), g2: TAU_G2 },
  ].filter(({ g1 }) => !g1.is0())
  const { Fp12 } = fields
  return pairs.length === 0 || Fp12.eql(bls12_381.pairingBatch(pairs), Fp12.ONE)
}

/** The ceremony's: g2_monomial[1] of trusted_setup.json. */
const TAU_G2 = G2.Point.fromAffine({
  x: {
    c0: 0x185cbfee53492714734429b7b38608e23926c911cceceac9a36851477ba4c60b087041de621000edc98edada20c1def2n,
    c1: 0x15bfd7dd8cdeb128843bc287230af38926187075cbfbefa81009a2ce615ac53d2914e5870cb452d2afaaab24f3499f72n,
  },
  y: {
    c0: 0x014353bdb96b626dd7d5ee8599d1fca2131569490e28de18e82451a496a9c9794ce26d105941f383ee689bfbbb832a99n,
    c1: 0x1666c54b0a32529503432fcae0181b4bef79de09fc63671fda5ed1ba9bfa07899495346f3d7ac9cd23048ef30d0a154fn,
  },
})

function scalarAt(input: Bytes, at: number): bigint {
  const scalar = bytesToBigint(input.subarray(at, at + 32))
  if (scalar >= ORDER)
    throw notVerified('scalar is not canonical when interpreted as a big integer in big-endian')
  return scalar
}

/** 48 bytes: three flags (compressed, infinity, larger y) and x. */
function decompress(bytes: Bytes): Point {
  const flags = bytes[0]! >> 5
  if (flags === 1 || flags === 3 || flags === 7) throw notVerified('invalid point encoding')
  if (flags < 4) throw notVerified('short buffer')
  const x = bytesToBigint(bytes) & ((1n << 381n) - 1n)
  if (flags === 6) {
    if (x !== 0n) throw notVerified('invalid infinity point encoding')
    return G1.Point.ZERO
  }
  const { Fp } = fields
  if (x >= Fp.ORDER) throw notVerified('invalid fp.Element encoding')
  const root = rootOf(Fp.add(Fp.mul(Fp.sqr(x), x), 4n))
  if (root === undefined)
    throw notVerified("invalid compressed coordinate: square root doesn't exist")
  const isLarger = root > Fp.ORDER / 2n
  const point = G1.Point.fromAffine({ x, y: isLarger === (flags === 5) ? root : Fp.neg(root) })
  if (!point.isTorsionFree()) throw notVerified('invalid point: subgroup check failed')
  return point
}

function rootOf(square: bigint): bigint | undefined {
  try {
    return fields.Fp.sqrt(square)
  } catch {
    return undefined
  }
}

const notVerified = (why: string) => new Fault(`error verifying kzg proof: ${why}`)
