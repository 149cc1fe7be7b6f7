/** The curve BN254: a sum, a product, a check of pairings (EIP-196, EIP-197; prices of EIP-1108). */
import { bn254 as curve } from '@noble/curves/bn254.js'
import type { Bytes } from '../../primitives/bytes.ts'
import { bigintToBytes, bytesToBigint } from '../../primitives/words.ts'
import { type Contract, dataAt, Fault, fixed, type Poll, truth } from './contract.ts'

/** At 0x06, 0x07 and 0x08. */
export const bn254 = (isCheap: boolean): readonly Contract[] => [
  { gas: fixed(isCheap ? 150n : 500n), run: add },
  { gas: fixed(isCheap ? 6000n : 40_000n), run: multiply },
  {
    gas(input) {
      const pairs = BigInt(Math.floor(input.length / PAIR_BYTES))
      return isCheap ? 45_000n + 34_000n * pairs : 100_000n + 80_000n * pairs
    },
    run: checkPairings,
    tooLong: 'bad elliptic curve pairing input size',
  },
]

const PAIR_BYTES = 192
/** Pairs of one part: 50 ms. */
const PAIRS_PER_POLL = 4
const { G1, G2, fields } = curve
const ORDER = fields.Fr.ORDER

function add(input: Bytes): Bytes {
  const data = dataAt(input, 0, 128)
  return encode(pointOfG1(data, 0).add(pointOfG1(data, 64)))
}

function multiply(input: Bytes): Bytes {
  const data = dataAt(input, 0, 96)
  const point = pointOfG1(data, 0)
  return encode(point.multiplyUnsafe(bytesToBigint(data.subarray(64)) % ORDER))
}

type PointG1 = typeof G1.Point.BASE
type PointG2 = typeof G2.Point.BASE

/** The product of the pairings is one. A pair with a point at infinity is one. */
function checkPairings(input: Bytes, poll: Poll): Bytes {
  if (input.length % PAIR_BYTES !== 0) throw new Fault('bad elliptic curve pairing size')
  let product = fields.Fp12.ONE
  let part: { readonly g1: PointG1; readonly g2: PointG2 }[] = []
  for (let at = 0; at < input.length; at += PAIR_BYTES) {
    const [g1, g2] = [pointOfG1(input, at), pointOfG2(input, at + 64)]
    if (!g1.is0() && !g2.is0()) part.push({ g1, g2 })
    if (part.length < PAIRS_PER_POLL && at + PAIR_BYTES < input.length) continue
    poll()
    if (part.length > 0) product = fields.Fp12.mul(product, curve.pairingBatch(part, false))
    part = []
  }
  return truth(fields.Fp12.eql(fields.Fp12.finalExponentiate(product), fields.Fp12.ONE))
}

function pointOfG1(input: Bytes, at: number): PointG1 {
  const [x, y] = [elementAt(input, at), elementAt(input, at + 32)]
  if (x === 0n && y === 0n) return G1.Point.ZERO
  return valid(() => G1.Point.fromAffine({ x, y }))
}

/** The imaginary parts come first. */
function pointOfG2(input: Bytes, at: number): PointG2 {
  const [x1, x0, y1, y0] = [0, 32, 64, 96].map((from) => elementAt(input, at + from))
  if (x0 === 0n && x1 === 0n && y0 === 0n && y1 === 0n) return G2.Point.ZERO
  return valid(() => G2.Point.fromAffine({ x: { c0: x0!, c1: x1! }, y: { c0: y0!, c1: y1! } }))
}

function elementAt(input: Bytes, at: number): bigint {
  const element = bytesToBigint(input.subarray(at, at + 32))
  if (element >= fields.Fp.ORDER) throw new Fault('invalid fp.Element encoding')
  return element
}

/** The library refuses some that are on no curve before it looks at the curve. */
function valid<Point extends PointG1 | PointG2>(make: () => Point): Point {
  try {
    const point = make()
    point.assertValidity()
    return point
  } catch (error) {
    const isOnCurve = (error as Error).message === NOT_IN_SUBGROUP
    throw new Fault(isOnCurve ? 'point is not in correct subgroup' : 'point is not on curve')
  }
}
/** The library's words. */
const NOT_IN_SUBGROUP = 'bad point: not in prime-order subgroup'

function encode(point: PointG1): Bytes {
  const output = new Uint8Array(64)
  if (point.is0()) return output
  const { x, y } = point.toAffine()
  output.set(bigintToBytes(x, 32))
  output.set(bigintToBytes(y, 32), 32)
  return output
}
