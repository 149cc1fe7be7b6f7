/**
 * Division of words by Knuth's algorithm D with digits of 64 bits. Each digit takes a
 * multiplication by a reciprocal. Method and letters are of Möller and Granlund, "Improved division
 * by invariant integers" (2011).
 */
import { copy, hi3, isZero, lt, mulh, neg, set64, setI64, sub, zero } from './u256'

/** Numerator and divisor, shifted so that the divisor's top bit is set; 9 and 4 limbs. */
const NUMERATOR: usize = memory.data(72, 16)
const DIVISOR: usize = memory.data(32, 16)
/** Results of a division, and the operands without their signs. */
const QUOTIENT: usize = memory.data(32, 16)
const REMAINDER: usize = memory.data(32, 16)
const ABS_P: usize = memory.data(32, 16)
const ABS_Q: usize = memory.data(32, 16)
/** A sum of 5 limbs or a product of 8. */
const WIDE: usize = memory.data(64, 16)

/** Divides p by q; a division by 0 gives 0. */
export function div(d: usize, p: usize, q: usize): void {
  if ((hi3(p) | hi3(q)) == 0) {
    const b = load<u64>(q)
    set64(d, b == 0 ? 0 : load<u64>(p) / b)
  } else if (isZero(q) || lt(p, q)) {
    zero(d)
  } else {
    zero(QUOTIENT)
    divmod(p, 4, q, QUOTIENT, 0)
    copy(d, QUOTIENT)
  }
}

/** Computes p modulo q; modulo 0 gives 0. */
export function mod(d: usize, p: usize, q: usize): void {
  if ((hi3(p) | hi3(q)) == 0) {
    const b = load<u64>(q)
    set64(d, b == 0 ? 0 : load<u64>(p) % b)
  } else if (isZero(q)) {
    zero(d)
  } else if (lt(p, q)) {
    copy(d, p)
  } else {
    divmod(p, 4, q, 0, REMAINDER)
    copy(d, REMAINDER)
  }
}

/** True if the signed number fits in 64 bits. */
// @ts-ignore: decorator
@inline
function isI64(p: usize): bool {
  const sign = load<i64>(p) >> 63
  return ((load<i64>(p, 8) ^ sign) | (load<i64>(p, 16) ^ sign) | (load<i64>(p, 24) ^ sign)) == 0
}

/**
 * True for 64-bit operands whose divisor is neither 0 nor −1. WebAssembly traps if it divides the
 * smallest number by −1.
 */
// @ts-ignore: decorator
@inline
function isSmallPair(p: usize, q: usize): bool {
  return <u64>load<i64>(q) + 1 > 1 && isI64(p) && isI64(q)
}

export function sdiv(d: usize, p: usize, q: usize): void {
  if (isSmallPair(p, q)) {
    setI64(d, load<i64>(p) / load<i64>(q))
    return
  }
  const isNegative = (load<i64>(p, 24) ^ load<i64>(q, 24)) < 0
  abs(ABS_P, p)
  abs(ABS_Q, q)
  div(d, ABS_P, ABS_Q)
  if (isNegative) neg(d, d)
}

/** The result has the numerator's sign. */
export function smod(d: usize, p: usize, q: usize): void {
  if (isSmallPair(p, q)) {
    setI64(d, load<i64>(p) % load<i64>(q))
    return
  }
  const isNegative = load<i64>(p, 24) < 0
  abs(ABS_P, p)
  abs(ABS_Q, q)
  mod(d, ABS_P, ABS_Q)
  if (isNegative) neg(d, d)
}

function abs(d: usize, p: usize): void {
  if (load<i64>(p, 24) < 0) neg(d, p)
  else copy(d, p)
}

/** Computes (p + q) mod m with a sum of 257 bits; 0 for m = 0. */
export function addmod(d: usize, p: usize, q: usize, m: usize): void {
  if (isZero(m)) return zero(d)
  let carry: u64 = 0
  for (let at: usize = 0; at < 32; at += 8) {
    const limb = load<u64>(p + at)
    const sum = limb + load<u64>(q + at)
    const all = sum + carry
    carry = u64(sum < limb) | u64(all < sum)
    store<u64>(WIDE + at, all)
  }
  const isBelow = lt(WIDE, m)
  if (carry == 0 && isBelow) return copy(d, WIDE)
  // If both operands are below m, one subtraction suffices.
  if (carry == u64(isBelow)) {
    sub(REMAINDER, WIDE, m)
    if (lt(REMAINDER, m)) return copy(d, REMAINDER)
  }
  store<u64>(WIDE, carry, 32)
  divmod(WIDE, 5, m, 0, REMAINDER)
  copy(d, REMAINDER)
}

/** Computes (p · q) mod m with a product of 512 bits; 0 for m = 0. */
export function mulmod(d: usize, p: usize, q: usize, m: usize): void {
  if (isZero(m)) return zero(d)
  mulFull(WIDE, p, q)
  divmod(WIDE, 8, m, 0, REMAINDER)
  copy(d, REMAINDER)
}

/**
 * Computes the whole product, 8 limbs.
 * @param d must not overlap the operands
 */
export function mulFull(d: usize, p: usize, q: usize): void {
  zero(d)
  for (let row: usize = 0; row < 32; row += 8) {
    const a = load<u64>(p + row)
    let carry: u64 = 0
    for (let at: usize = 0; at < 32; at += 8) {
      const to = d + row + at
      const b = load<u64>(q + at)
      const low = a * b
      const sum = low + load<u64>(to)
      const all = sum + carry
      store<u64>(to, all)
      carry = mulh(a, b) + u64(sum < low) + u64(all < sum)
    }
    store<u64>(d + row, carry, 32)
  }
}

/**
 * Computes floor((2^128 − 1) / d) − 2^64 of a limb whose top bit is set (algorithm 3). The first
 * digits come from a division, the rest from Newton steps.
 */
export function reciprocal(d: u64): u64 {
  const v0 = <u64>(<u32>0x7fd00 / <u32>(d >> 55))
  const d40 = (d >> 24) + 1
  const v1 = (v0 << 11) - ((v0 * v0 * d40) >> 40) - 1
  const v2 = (v1 << 13) + ((v1 * ((<u64>1 << 60) - v1 * d40)) >> 47)
  const d0 = d & 1
  const e = ((v2 >> 1) & (0 - d0)) - v2 * ((d >> 1) + d0)
  const v3 = (v2 << 31) + (mulh(v2, e) >> 1)
  const low = v3 * d
  return v3 - (mulh(v3, d) + d + u64(low + d < low))
}

/** Computes the reciprocal of two limbs with d1's top bit set (algorithm 6). */
function reciprocal2(d1: u64, d0: u64): u64 {
  let v = reciprocal(d1)
  let p = d1 * v + d0
  if (p < d0) {
    v--
    if (p >= d1) {
      v--
      p -= d1
    }
    p -= d1
  }
  const t1 = mulh(v, d0)
  const t0 = v * d0
  p += t1
  if (p < t1) {
    v--
    if (p > d1 || (p == d1 && t0 >= d0)) v--
  }
  return v
}

/** Counts limbs without leading zero limbs. */
// @ts-ignore: decorator
@inline
function limbsOf(p: usize, limit: i32): i32 {
  let count = limit
  while (count > 0 && load<u64>(p + ((<usize>count) << 3) - 8) == 0) count--
  return count
}

/**
 * Shifts limbs to the left by less than 64 bits.
 * @returns the bits shifted out at the top
 */
// @ts-ignore: decorator
@inline
function normalize(d: usize, p: usize, limbs: i32, shift: u64): u64 {
  let carry: u64 = 0
  for (let at: usize = 0, end = (<usize>limbs) << 3; at < end; at += 8) {
    const limb = load<u64>(p + at)
    store<u64>(d + at, (limb << shift) | carry)
    // Two shifts, because WebAssembly treats a shift by 64 as a shift by 0.
    carry = (limb >> 1) >> (63 - shift)
  }
  return carry
}

/**
 * Divides a number of up to 8 limbs by a word other than 0.
 * @param np numerator, `nn` limbs
 * @param qp receives the quotient, must be zero and as long as the numerator; 0 if not needed
 * @param rp receives the remainder, a word; 0 if not needed. Neither result may overlap an operand
 */
export function divmod(np: usize, nn: i32, dp: usize, qp: usize, rp: usize): void {
  const dn = limbsOf(dp, 4)
  nn = limbsOf(np, nn)
  if (nn < dn) {
    if (rp == 0) return
    zero(rp)
    for (let at = 0; at < nn; at++) store<u64>(rp + ((<usize>at) << 3), load<u64>(np + ((<usize>at) << 3)))
    return
  }
  const shift = clz<u64>(load<u64>(dp + ((<usize>dn) << 3) - 8))
  const top = normalize(NUMERATOR, np, nn, shift)
  if (dn == 1) {
    const rest = divideByLimb(nn, top, load<u64>(dp) << shift, qp)
    if (rp != 0) set64(rp, rest >> shift)
    return
  }
  store<u64>(NUMERATOR + ((<usize>nn) << 3), top)
  normalize(DIVISOR, dp, dn, shift)
  divideByLimbs(nn, dn, qp)
  if (rp == 0) return
  zero(rp)
  for (let at: usize = 0, end = (<usize>dn) << 3; at < end; at += 8) {
    const above = at + 8 < end ? load<u64>(NUMERATOR + at, 8) : 0
    store<u64>(rp + at, (load<u64>(NUMERATOR + at) >> shift) | ((above << 1) << (63 - shift)))
  }
}

/**
 * Applies algorithm 4 to each limb of NUMERATOR, with `rest` above.
 * @returns the remainder
 */
function divideByLimb(nn: i32, rest: u64, d: u64, qp: usize): u64 {
  const v = reciprocal(d)
  for (let j = nn - 1; j >= 0; j--) {
    const u0 = load<u64>(NUMERATOR + ((<usize>j) << 3))
    const low = v * rest
    const q0 = low + u0
    let q1 = mulh(v, rest) + rest + u64(q0 < low) + 1
    let r = u0 - q1 * d
    if (r > q0) {
      q1--
      r += d
    }
    if (r >= d) {
      q1++
      r -= d
    }
    rest = r
    if (qp != 0) store<u64>(qp + ((<usize>j) << 3), q1)
  }
  return rest
}

/**
 * Knuth's algorithm D, which estimates each digit from the three top limbs. NUMERATOR becomes the
 * remainder.
 */
function divideByLimbs(nn: i32, dn: i32, qp: usize): void {
  const size = (<usize>dn) << 3
  const d1 = load<u64>(DIVISOR + size - 8)
  const d0 = load<u64>(DIVISOR + size - 16)
  const v = reciprocal2(d1, d0)
  for (let j = nn - dn; j >= 0; j--) {
    const base = NUMERATOR + ((<usize>j) << 3)
    const top = base + size
    const u2 = load<u64>(top)
    const u1 = load<u64>(top - 8)
    let q = u64.MAX_VALUE
    if (u2 == d1 && u1 == d0) {
      const borrow = subtractProduct(base, q, size)
      store<u64>(top, u2 - borrow)
    } else {
      // Algorithm 5 gives q of (u2, u1, u0) by (d1, d0), and the remainder (r1, r0).
      const u0 = load<u64>(top - 16)
      const low = v * u2
      const q0 = low + u1
      q = mulh(v, u2) + u2 + u64(q0 < low)
      const t0 = d0 * q
      let r0 = u0 - t0
      let r1 = u1 - q * d1 - mulh(d0, q) - u64(u0 < t0)
      r1 = r1 - d1 - u64(r0 < d0)
      r0 -= d0
      q++
      if (r1 >= q0) {
        q--
        r0 += d0
        r1 += d1 + u64(r0 < d0)
      }
      if (r1 > d1 || (r1 == d1 && r0 >= d0)) {
        q++
        r1 = r1 - d1 - u64(r0 < d0)
        r0 -= d0
      }
      const borrow = subtractProduct(base, q, size - 16)
      const s0 = r0 - borrow
      const below = u64(r0 < borrow)
      store<u64>(top - 16, s0)
      store<u64>(top - 8, r1 - below)
      if (r1 < below) {
        q--
        addDivisor(base, size)
      }
      store<u64>(top, 0)
    }
    if (qp != 0) store<u64>(qp + ((<usize>j) << 3), q)
  }
}

/**
 * Subtracts the lowest `size` bytes of DIVISOR times q from the number at base.
 * @returns the borrow from the limb above
 */
// @ts-ignore: decorator
@inline
function subtractProduct(base: usize, q: u64, size: usize): u64 {
  let borrow: u64 = 0
  for (let at: usize = 0; at < size; at += 8) {
    const d = load<u64>(DIVISOR + at)
    const low = q * d + borrow
    const limb = load<u64>(base + at)
    store<u64>(base + at, limb - low)
    borrow = mulh(q, d) + u64(low < borrow) + u64(limb < low)
  }
  return borrow
}

function addDivisor(base: usize, size: usize): void {
  let carry: u64 = 0
  for (let at: usize = 0; at < size; at += 8) {
    const limb = load<u64>(base + at)
    const sum = limb + load<u64>(DIVISOR + at)
    const all = sum + carry
    carry = u64(sum < limb) | u64(all < sum)
    store<u64>(base + at, all)
  }
}
