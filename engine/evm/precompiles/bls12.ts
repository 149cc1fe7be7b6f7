/**
 * The curve BLS12-381: additions, multi-scalar multiplications, pairing checks and maps of field
 * elements to points (EIP-2537).
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { msmGas, msmGasOfG2 } from './bls12-gas.ts'
import {
  bls12,
  checkSubgroup,
  ELEMENT_BYTES,
  type Group,
  g1,
  g2,
  POINT_BYTES,
  readElement,
  readPoint,
  writePoint,
} from './bls12-points.ts'
import { type Contract, Fault, fixed, lazily, type Poll, truth } from './contract.ts'
import { FP_BYTES, FR_BYTES, G1_BYTES, G2_BYTES, GT_BYTES } from './mcl.ts'

const SCALAR_BYTES = 32
const TERM_BYTES = { g1: POINT_BYTES.g1 + SCALAR_BYTES, g2: POINT_BYTES.g2 + SCALAR_BYTES } as const
const PAIR_BYTES = POINT_BYTES.g1 + POINT_BYTES.g2
/** The work between two polls takes about 5 ms. */
const PAIRS_PER_POLL = 4
const TERMS_PER_POLL = 16
/**
 * Terms of one multi-scalar multiplication. From 32 terms on mcl takes a third of the time for
 * each.
 */
const TERMS = 32

/** The contracts at addresses 0x0b to 0x11. */
export const BLS12: readonly Contract[] = [
  { gas: fixed(375n), run: (input) => add(g1(), input) },
  {
    gas: (input) => msmGas(Math.floor(input.length / TERM_BYTES.g1)),
    run: (input, poll) => sumOfProducts(g1(), input, poll),
  },
  { gas: fixed(600n), run: (input) => add(g2(), input) },
  {
    gas: (input) => msmGasOfG2(Math.floor(input.length / TERM_BYTES.g2)),
    run: (input, poll) => sumOfProducts(g2(), input, poll),
  },
  {
    gas: (input) => 37_700n + 32_600n * BigInt(Math.floor(input.length / PAIR_BYTES)),
    run: checkPairings,
  },
  {
    gas: fixed(5500n),
    run(input) {
      checkLength(input, ELEMENT_BYTES)
      const { p, element } = buffers()
      readElement(input, 0, element)
      bls12().mclBnFp_mapToG1(p, element)
      return writePoint(g1(), p)
    },
  },
  {
    gas: fixed(23_800n),
    run(input) {
      checkLength(input, 2 * ELEMENT_BYTES)
      const { p, element } = buffers()
      readElement(input, 0, element)
      readElement(input, ELEMENT_BYTES, element + FP_BYTES)
      bls12().mclBnFp2_mapToG2(p, element)
      return writePoint(g2(), p)
    },
  },
]

/** Buffers in mcl's memory; those of points fit either group. */
const buffers = lazily(() => {
  const { scratch } = bls12()
  return {
    element: scratch(2 * FP_BYTES),
    p: scratch(G2_BYTES),
    q: scratch(G2_BYTES),
    points: scratch(TERMS * G2_BYTES),
    scalars: scratch(TERMS * FR_BYTES),
    part: scratch(GT_BYTES),
    product: scratch(GT_BYTES),
  }
})

function add(group: Group, input: Bytes): Bytes {
  checkLength(input, 2 * group.bytes)
  const { p, q } = buffers()
  readPoint(group, input, [0, p])
  readPoint(group, input, [group.bytes, q])
  group.add(p, p, q)
  return writePoint(group, p)
}

function sumOfProducts(group: Group, input: Bytes, poll: Poll): Bytes {
  const bytes = group.bytes + SCALAR_BYTES
  checkPieces(input, bytes)
  const { p, q, points, scalars } = buffers()
  group.clear(p)
  let terms = 0
  for (let at = 0; at < input.length; at += bytes) {
    // Points at infinity are checked too.
    if (at % (TERMS_PER_POLL * bytes) === 0) poll()
    const point = points + terms * group.size
    const isNotZero = readPoint(group, input, [at, point])
    checkSubgroup(group, point, isNotZero)
    if (isNotZero) {
      const scalar = input.subarray(at + group.bytes, at + bytes)
      bls12().putScalar(scalars + terms * FR_BYTES, scalar)
      terms++
    }
    const isLast = at + bytes === input.length
    if (terms < TERMS && !(isLast && terms > 0)) continue
    poll()
    group.sumOfProducts(q, points, scalars, terms)
    group.add(p, p, q)
    terms = 0
  }
  return writePoint(group, p)
}

/**
 * Checks that the product of the pairings is one. A pair with a point at infinity counts as one.
 */
function checkPairings(input: Bytes, poll: Poll): Bytes {
  checkPieces(input, PAIR_BYTES)
  const mcl = bls12()
  const { points, part, product } = buffers()
  const points2 = points + PAIRS_PER_POLL * G1_BYTES
  mcl.mclBnGT_setInt32(product, 1)
  let pairs = 0
  for (let at = 0; at < input.length; at += PAIR_BYTES) {
    if (at % (PAIRS_PER_POLL * PAIR_BYTES) === 0) poll()
    const [first, second] = [points + pairs * G1_BYTES, points2 + pairs * G2_BYTES]
    const isFirst = readPoint(g1(), input, [at, first])
    const isSecond = readPoint(g2(), input, [at + POINT_BYTES.g1, second])
    checkSubgroup(g1(), first, isFirst)
    checkSubgroup(g2(), second, isSecond)
    if (isFirst && isSecond) pairs++
    const isLast = at + PAIR_BYTES === input.length
    if (pairs < PAIRS_PER_POLL && !(isLast && pairs > 0)) continue
    mcl.mclBn_millerLoopVec(part, points, points2, pairs)
    mcl.mclBnGT_mul(product, product, part)
    pairs = 0
  }
  poll()
  mcl.mclBn_finalExp(product, product)
  return truth(mcl.mclBnGT_isOne(product) === 1)
}

function checkPieces(input: Bytes, bytes: number): void {
  if (input.length === 0 || input.length % bytes !== 0) throw new Fault(INVALID_LENGTH)
}

function checkLength(input: Bytes, bytes: number): void {
  if (input.length !== bytes) throw new Fault(INVALID_LENGTH)
}
const INVALID_LENGTH = 'invalid input length'
