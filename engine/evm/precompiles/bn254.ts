/**
 * The curve BN254: addition, multiplication and pairing check (EIP-196, EIP-197; prices of
 * EIP-1108).
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { bigintToBytes, compareBytes } from '../../primitives/words.ts'
import { subgroupCheck } from './bn254-subgroup.ts'
import { type Contract, dataAt, Fault, fixed, lazily, type Poll, truth } from './contract.ts'
import { FP_BYTES, FR_BYTES, G1_BYTES, G2_BYTES, GT_BYTES, openCurve } from './mcl.ts'

/** The contracts at addresses 0x06, 0x07 and 0x08. */
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
/** The pairs between two polls take about 5 ms. */
const PAIRS_PER_POLL = 4
const MODULUS = bigintToBytes(
  0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47n,
  32,
)

const opened = lazily(() => {
  const mcl = openCurve('bn254')
  const { scratch } = mcl
  return {
    mcl,
    isInSubgroup: subgroupCheck(mcl),
    p: scratch(G1_BYTES),
    q: scratch(G1_BYTES),
    scalar: scratch(FR_BYTES),
    g1: scratch(PAIRS_PER_POLL * G1_BYTES),
    g2: scratch(PAIRS_PER_POLL * G2_BYTES),
    part: scratch(GT_BYTES),
    product: scratch(GT_BYTES),
  }
})

function add(input: Bytes): Bytes {
  const { mcl, p, q } = opened()
  const data = dataAt(input, 0, 128)
  readG1(data, 0, p)
  readG1(data, 64, q)
  mcl.mclBnG1_add(p, p, q)
  return write(p)
}

function multiply(input: Bytes): Bytes {
  const { mcl, p, scalar } = opened()
  const data = dataAt(input, 0, 96)
  readG1(data, 0, p)
  mcl.putScalar(scalar, data.subarray(64))
  mcl.mclBnG1_mul(p, p, scalar)
  return write(p)
}

/**
 * Checks that the product of the pairings is one. A pair with a point at infinity counts as one.
 */
function checkPairings(input: Bytes, poll: Poll): Bytes {
  if (input.length % PAIR_BYTES !== 0) throw new Fault('bad elliptic curve pairing size')
  const { mcl, g1, g2, part, product } = opened()
  mcl.mclBnGT_setInt32(product, 1)
  let pairs = 0
  for (let at = 0; at < input.length; at += PAIR_BYTES) {
    // Points at infinity are checked too.
    if (at % (PAIRS_PER_POLL * PAIR_BYTES) === 0) poll()
    const isNotZero = readG1(input, at, g1 + pairs * G1_BYTES)
    if (readG2(input, at + 64, g2 + pairs * G2_BYTES) && isNotZero) pairs++
    const isLast = at + PAIR_BYTES === input.length
    if (pairs < PAIRS_PER_POLL && !(isLast && pairs > 0)) continue
    mcl.mclBn_millerLoopVec(part, g1, g2, pairs)
    mcl.mclBnGT_mul(product, product, part)
    pairs = 0
  }
  poll()
  mcl.mclBn_finalExp(product, product)
  return truth(mcl.mclBnGT_isOne(product) === 1)
}

/** @returns false for the point at infinity */
function readG1(input: Bytes, at: number, to: number): boolean {
  const { mcl } = opened()
  const isZero = readElements(input, at, [to, to + FP_BYTES])
  if (isZero) mcl.mclBnG1_clear(to)
  else {
    mcl.finishG1(to)
    if (mcl.mclBnG1_isValid(to) !== 1) throw new Fault('point is not on curve')
  }
  return !isZero
}

/**
 * Reads a point whose imaginary parts come first.
 * @returns false for the point at infinity
 */
function readG2(input: Bytes, at: number, to: number): boolean {
  const { mcl, isInSubgroup } = opened()
  const offsets = [to + FP_BYTES, to, to + 3 * FP_BYTES, to + 2 * FP_BYTES]
  const isZero = readElements(input, at, offsets)
  if (isZero) mcl.mclBnG2_clear(to)
  else {
    mcl.finishG2(to)
    if (mcl.mclBnG2_isValid(to) !== 1) throw new Fault('point is not on curve')
    if (!isInSubgroup(to)) throw new Fault('point is not in correct subgroup')
  }
  return !isZero
}

/**
 * Reads consecutive field elements.
 * @returns true if all are zero
 */
function readElements(input: Bytes, from: number, offsets: readonly number[]): boolean {
  const { mcl } = opened()
  let isZero = true
  for (const [index, to] of offsets.entries()) {
    const element = input.subarray(from + 32 * index, from + 32 * index + 32)
    if (compareBytes(element, MODULUS) >= 0) throw new Fault('invalid fp.Element encoding')
    isZero &&= element.every((byte) => byte === 0)
    mcl.putElement(to, element)
  }
  return isZero
}

function write(point: number): Bytes {
  const { mcl } = opened()
  const output = new Uint8Array(64)
  if (mcl.mclBnG1_isZero(point) === 1) return output
  mcl.mclBnG1_normalize(point, point)
  mcl.getElement(point, output.subarray(0, 32))
  mcl.getElement(point + FP_BYTES, output.subarray(32))
  return output
}
