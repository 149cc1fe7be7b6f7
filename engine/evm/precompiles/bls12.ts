/** The curve BLS12-381: sums, sums of products, a check of pairings, maps of field elements to points (EIP-2537). */
import { bls12_381 } from '@noble/curves/bls12-381.js'
import type { Bytes } from '../../primitives/bytes.ts'
import { bigintToBytes, bytesToBigint, concatBytes } from '../../primitives/words.ts'
import { msmGas, msmGasOfG2 } from './bls12-gas.ts'
import { type Contract, Fault, fixed, type Poll, truth } from './contract.ts'

const { G1, G2, fields } = bls12_381
type PointG1 = typeof G1.Point.BASE
type PointG2 = typeof G2.Point.BASE

const ELEMENT_BYTES = 64
const G1_BYTES = 2 * ELEMENT_BYTES
const G2_BYTES = 4 * ELEMENT_BYTES
const PAIR_BYTES = G1_BYTES + G2_BYTES
const SCALAR_BYTES = 32
/** Pairs of one part: 50 ms. */
const PAIRS_PER_POLL = 4
/** Terms of a sum of one part: 30 to 40 ms. */
const TERMS_PER_POLL = { g1: 8, g2: 4 } as const

/** At 0x0b to 0x11. */
export const BLS12: readonly Contract[] = [
  {
    gas: fixed(375n),
    run(input) {
      checkLength(input, 2 * G1_BYTES)
      return encodeG1(pointOfG1(input, 0).add(pointOfG1(input, G1_BYTES)))
    },
  },
  { gas: (input) => msmGas(Math.floor(input.length / (G1_BYTES + SCALAR_BYTES))), run: sumG1 },
  {
    gas: fixed(600n),
    run(input) {
      checkLength(input, 2 * G2_BYTES)
      return encodeG2(pointOfG2(input, 0).add(pointOfG2(input, G2_BYTES)))
    },
  },
  { gas: (input) => msmGasOfG2(Math.floor(input.length / (G2_BYTES + SCALAR_BYTES))), run: sumG2 },
  {
    gas: (input) => 37_700n + 32_600n * BigInt(Math.floor(input.length / PAIR_BYTES)),
    run: checkPairings,
  },
  {
    gas: fixed(5500n),
    run(input) {
      checkLength(input, ELEMENT_BYTES)
      // The library's types ask for a list, its code for the number.
      const { x, y } = G1.mapToCurve(elementAt(input, 0) as unknown as bigint[])
      return encode([x, y])
    },
  },
  {
    gas: fixed(23_800n),
    run(input) {
      checkLength(input, 2 * ELEMENT_BYTES)
      const element = [elementAt(input, 0), elementAt(input, ELEMENT_BYTES)]
      const { x, y } = G2.mapToCurve(element)
      return encode([x.c0, x.c1, y.c0, y.c1])
    },
  },
]

function sumG1(input: Bytes, poll: Poll): Bytes {
  const bytes = G1_BYTES + SCALAR_BYTES
  let sum = G1.Point.ZERO
  for (const [term, at] of piecesOf(input, bytes)) {
    if (term % TERMS_PER_POLL.g1 === 0) poll()
    const point = inSubgroup(pointOfG1(input, at), 'g1')
    sum = sum.add(point.multiplyUnsafe(scalarAt(input, at + G1_BYTES)))
  }
  return encodeG1(sum)
}

function sumG2(input: Bytes, poll: Poll): Bytes {
  const bytes = G2_BYTES + SCALAR_BYTES
  let sum = G2.Point.ZERO
  for (const [term, at] of piecesOf(input, bytes)) {
    if (term % TERMS_PER_POLL.g2 === 0) poll()
    const point = inSubgroup(pointOfG2(input, at), 'g2')
    sum = sum.add(point.multiplyUnsafe(scalarAt(input, at + G2_BYTES)))
  }
  return encodeG2(sum)
}

/** The product of the pairings is one. A pair with a point at infinity is one. */
function checkPairings(input: Bytes, poll: Poll): Bytes {
  const { Fp12 } = fields
  let product = Fp12.ONE
  let part: { readonly g1: PointG1; readonly g2: PointG2 }[] = []
  for (const [, at] of piecesOf(input, PAIR_BYTES)) {
    const [g1, g2] = [pointOfG1(input, at), pointOfG2(input, at + G1_BYTES)]
    inSubgroup(g1, 'g1')
    inSubgroup(g2, 'g2')
    if (!g1.is0() && !g2.is0()) part.push({ g1, g2 })
    if (part.length < PAIRS_PER_POLL && at + PAIR_BYTES < input.length) continue
    poll()
    if (part.length > 0) product = Fp12.mul(product, bls12_381.pairingBatch(part, false))
    part = []
  }
  return truth(Fp12.eql(Fp12.finalExponentiate(product), Fp12.ONE))
}

/** Where they begin; at least one. */
function piecesOf(input: Bytes, bytes: number): [index: number, at: number][] {
  if (input.length === 0 || input.length % bytes !== 0) throw new Fault(INVALID_LENGTH)
  return Array.from({ length: input.length / bytes }, (_, index) => [index, index * bytes])
}

function checkLength(input: Bytes, bytes: number): void {
  if (input.length !== bytes) throw new Fault(INVALID_LENGTH)
}
const INVALID_LENGTH = 'invalid input length'

/** 16 zeros, then 48 bytes below the order of the field. */
function elementAt(input: Bytes, at: number): bigint {
  for (let byte = at; byte < at + 16; byte++)
    if (input[byte] !== 0) throw new Fault('invalid field element top bytes')
  const element = bytesToBigint(input.subarray(at + 16, at + ELEMENT_BYTES))
  if (element >= fields.Fp.ORDER) throw new Fault('invalid fp.Element encoding')
  return element
}

const scalarAt = (input: Bytes, at: number): bigint =>
  bytesToBigint(input.subarray(at, at + SCALAR_BYTES)) % fields.Fr.ORDER

/** On the curve, in whichever of its groups. */
function pointOfG1(input: Bytes, at: number): PointG1 {
  const [x, y] = [elementAt(input, at), elementAt(input, at + ELEMENT_BYTES)]
  return x === 0n && y === 0n ? G1.Point.ZERO : onCurve(() => G1.Point.fromAffine({ x, y }))
}

function pointOfG2(input: Bytes, at: number): PointG2 {
  const [x0, x1, y0, y1] = [0, 1, 2, 3].map((part) => elementAt(input, at + part * ELEMENT_BYTES))
  if (x0 === 0n && x1 === 0n && y0 === 0n && y1 === 0n) return G2.Point.ZERO
  return onCurve(() => G2.Point.fromAffine({ x: { c0: x0!, c1: x1! }, y: { c0: y0!, c1: y1! } }))
}

function onCurve<Point extends PointG1 | PointG2>(make: () => Point): Point {
  let point: Point | undefined
  try {
    point = make()
    point.assertValidity()
  } catch (error) {
    // The library refuses some that are on no curve before it looks at the curve.
    if (point === undefined || (error as Error).message !== NOT_IN_SUBGROUP)
      throw new Fault('invalid point: not on curve')
  }
  return point
}
/** The library's words. */
const NOT_IN_SUBGROUP = 'bad point: not in prime-order subgroup'

function inSubgroup<Point extends PointG1 | PointG2>(point: Point, group: 'g1' | 'g2'): Point {
  if (!point.isTorsionFree()) throw new Fault(`${group} point is not on correct subgroup`)
  return point
}

function encodeG1(point: PointG1): Bytes {
  if (point.is0()) return new Uint8Array(G1_BYTES)
  const { x, y } = point.toAffine()
  return encode([x, y])
}

function encodeG2(point: PointG2): Bytes {
  if (point.is0()) return new Uint8Array(G2_BYTES)
  const { x, y } = point.toAffine()
  return encode([x.c0, x.c1, y.c0, y.c1])
}

const encode = (elements: readonly bigint[]): Bytes =>
  concatBytes(...elements.map((element) => bigintToBytes(element, ELEMENT_BYTES)))
