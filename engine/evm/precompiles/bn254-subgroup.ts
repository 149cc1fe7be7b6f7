/**
 * Checks whether a point of BN254's twist is in the subgroup of the pairings. mcl multiplies by the
 * group's order, which takes as long as the pairing itself. The map ψ needs only a factor of 63
 * bits. Source: El Housni, Guillevic, Piellard: Co-factor clearing and subgroup membership testing
 * on pairing-friendly curves, 2022.
 */
import { bigintToBytes } from '../../primitives/words.ts'
import { type Curve, FP_BYTES, G2_BYTES } from './mcl.ts'

/** The curve's x = 4965661367192848881 in digits of −1, 0 and 1, the highest first. */
const X_DIGITS = '+000+0+00-0+0+0-00+0+0-0-0-0+000+00+0+0+0-0+00+0000+0+0000-000+'

/**
 * ξ^((p − 1)/3) and ξ^((p − 1)/2) for ξ = 9 + u. ψ multiplies the conjugates of x and y by them.
 */
const PSI = [
  0x2fb347984f7911f74c0bec3cf559b143b78cc310c2c3330c99e39557176f553dn,
  0x16c9e55061ebae204ba4cc8bd75a079432ae2a1d0b7c9dce1665d51c640fcba2n,
  0x063cf305489af5dcdc5ec698b6e2f9b9dbaae0eda9c95998dc54014671a0135an,
  0x07c03cbcac41049a0704b5a7ec796f2b21807dc98fa25bd282d37f632623b0e3n,
] as const

/** Makes the check for a point in mcl's memory that is on the twist and not at infinity. */
export function subgroupCheck(mcl: Curve): (point: number) => boolean {
  const { scratch, mclBnFp_neg, mclBnFp2_mul, mclBnG2_add, mclBnG2_dbl, mclBnG2_neg } = mcl
  const [minus, a, b, c] = [
    scratch(G2_BYTES),
    scratch(G2_BYTES),
    scratch(G2_BYTES),
    scratch(G2_BYTES),
  ]
  const constants = scratch(4 * FP_BYTES)
  for (const [index, constant] of PSI.entries())
    mcl.putElement(constants + index * FP_BYTES, bigintToBytes(constant, 32))

  /** Applies ψ in place, for either representation of the third coordinate. */
  function psi(point: number): void {
    for (const imaginary of [1, 3, 5]) {
      const at = point + imaginary * FP_BYTES
      mclBnFp_neg(at, at)
    }
    mclBnFp2_mul(point, point, constants)
    const y = point + 2 * FP_BYTES
    mclBnFp2_mul(y, y, constants + 2 * FP_BYTES)
  }

  /** Computes a = x·point. */
  function multiplyByX(point: number): void {
    mclBnG2_neg(minus, point)
    mcl.mclBnG2_clear(a)
    for (const digit of X_DIGITS) {
      mclBnG2_dbl(a, a)
      if (digit !== '0') mclBnG2_add(a, a, digit === '+' ? point : minus)
    }
  }

  // [x + 1]Q + ψ([x]Q) + ψ²([x]Q) = ψ³([2x]Q)
  return (point) => {
    multiplyByX(point)
    mcl.move(b, a, G2_BYTES)
    mclBnG2_add(a, a, point)
    psi(b)
    mclBnG2_add(a, a, b)
    psi(b)
    mcl.move(c, b, G2_BYTES)
    mclBnG2_add(a, a, b)
    psi(c)
    mclBnG2_dbl(c, c)
    return mcl.mclBnG2_isEqual(a, c) === 1
  }
}
