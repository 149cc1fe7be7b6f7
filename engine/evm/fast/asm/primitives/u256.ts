/**
 * 256-bit arithmetic. A word is 32 bytes at a pointer: four 64-bit limbs, the lowest first. Results
 * go to `d`, which may be an operand.
 */

const POWER: usize = memory.data(32, 16)

/** Nonzero if the word exceeds its lowest limb. */
// @ts-ignore: decorator
@inline
export function hi3(p: usize): u64 {
  return load<u64>(p, 8) | load<u64>(p, 16) | load<u64>(p, 24)
}

// @ts-ignore: decorator
@inline
export function store4(d: usize, r0: u64, r1: u64, r2: u64, r3: u64): void {
  store<u64>(d, r0)
  store<u64>(d, r1, 8)
  store<u64>(d, r2, 16)
  store<u64>(d, r3, 24)
}

// @ts-ignore: decorator
@inline
export function set64(d: usize, value: u64): void {
  store<u64>(d, value)
  store<u64>(d, 0, 8)
  v128.store(d, i64x2.splat(0), 16)
}

/** Stores a sign-extended value. */
// @ts-ignore: decorator
@inline
export function setI64(d: usize, value: i64): void {
  const sign = value >> 63
  store<i64>(d, value)
  store<i64>(d, sign, 8)
  v128.store(d, i64x2.splat(sign), 16)
}

// @ts-ignore: decorator
@inline
export function zero(d: usize): void {
  v128.store(d, i64x2.splat(0))
  v128.store(d, i64x2.splat(0), 16)
}

// @ts-ignore: decorator
@inline
export function copy(d: usize, p: usize): void {
  const low = v128.load(p)
  const high = v128.load(p, 16)
  v128.store(d, low)
  v128.store(d, high, 16)
}

/** Reverses 16 bytes. */
// @ts-ignore: decorator
@inline
export function rev(half: v128): v128 {
  return i8x16.shuffle(half, half, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
}

/** Converts between a word and 32 big-endian bytes, in either direction. */
// @ts-ignore: decorator
@inline
export function bswapCopy(d: usize, p: usize): void {
  const low = v128.load(p)
  const high = v128.load(p, 16)
  v128.store(d, rev(high))
  v128.store(d, rev(low), 16)
}

// @ts-ignore: decorator
@inline
export function isZero(p: usize): bool {
  return !v128.any_true(v128.or(v128.load(p), v128.load(p, 16)))
}

// @ts-ignore: decorator
@inline
export function eq(p: usize, q: usize): bool {
  const low = v128.xor(v128.load(p), v128.load(q))
  const high = v128.xor(v128.load(p, 16), v128.load(q, 16))
  return !v128.any_true(v128.or(low, high))
}

// @ts-ignore: decorator
@inline
export function lt(p: usize, q: usize): bool {
  const a3 = load<u64>(p, 24)
  const b3 = load<u64>(q, 24)
  if (a3 != b3) return a3 < b3
  const a2 = load<u64>(p, 16)
  const b2 = load<u64>(q, 16)
  if (a2 != b2) return a2 < b2
  const a1 = load<u64>(p, 8)
  const b1 = load<u64>(q, 8)
  if (a1 != b1) return a1 < b1
  return load<u64>(p) < load<u64>(q)
}

// @ts-ignore: decorator
@inline
export function slt(p: usize, q: usize): bool {
  const a3 = load<i64>(p, 24)
  const b3 = load<i64>(q, 24)
  return a3 != b3 ? a3 < b3 : lt(p, q)
}

/** Counts leading zero bits, 0 to 256. */
export function leadingZeros(p: usize): i32 {
  for (let at: i32 = 3; at >= 0; at--) {
    const limb = load<u64>(p + ((<usize>at) << 3))
    if (limb != 0) return ((3 - at) << 6) + <i32>clz<u64>(limb)
  }
  return 256
}

/** Counts bytes without leading zeros, 0 to 32. */
export function byteLen(p: usize): i32 {
  return (263 - leadingZeros(p)) >> 3
}

// @ts-ignore: decorator
@inline
export function add(d: usize, p: usize, q: usize): void {
  const a0 = load<u64>(p)
  const a1 = load<u64>(p, 8)
  const a2 = load<u64>(p, 16)
  const a3 = load<u64>(p, 24)
  const r0 = a0 + load<u64>(q)
  const s1 = a1 + load<u64>(q, 8)
  const s2 = a2 + load<u64>(q, 16)
  const s3 = a3 + load<u64>(q, 24)
  const c0 = u64(r0 < a0)
  const r1 = s1 + c0
  const c1 = u64(s1 < a1) | u64(r1 < c0)
  const r2 = s2 + c1
  const c2 = u64(s2 < a2) | u64(r2 < c1)
  store4(d, r0, r1, r2, s3 + c2)
}

// @ts-ignore: decorator
@inline
export function sub(d: usize, p: usize, q: usize): void {
  const a0 = load<u64>(p)
  const a1 = load<u64>(p, 8)
  const a2 = load<u64>(p, 16)
  const b0 = load<u64>(q)
  const b1 = load<u64>(q, 8)
  const b2 = load<u64>(q, 16)
  const s3 = load<u64>(p, 24) - load<u64>(q, 24)
  const c0 = u64(a0 < b0)
  const s1 = a1 - b1
  const c1 = u64(a1 < b1) | u64(s1 < c0)
  const s2 = a2 - b2
  const c2 = u64(a2 < b2) | u64(s2 < c1)
  store4(d, a0 - b0, s1 - c0, s2 - c1, s3 - c2)
}

/** Adds a small number to p in place. */
// @ts-ignore: decorator
@inline
export function addSmall(p: usize, small: u64): void {
  const sum = load<u64>(p) + small
  store<u64>(p, sum)
  if (sum < small) carry(p)
}
function carry(p: usize): void {
  for (let limb: usize = 8; limb < 32; limb += 8) {
    const next = load<u64>(p + limb) + 1
    store<u64>(p + limb, next)
    if (next != 0) return
  }
}

/** Computes 0 − p. */
// @ts-ignore: decorator
@inline
export function neg(d: usize, p: usize): void {
  const a0 = load<u64>(p)
  const a1 = load<u64>(p, 8)
  const a2 = load<u64>(p, 16)
  const a3 = load<u64>(p, 24)
  // Two's complement inverts all bits and adds 1, which carries through lower limbs of 0.
  const c1 = u64(a0 == 0)
  const c2 = c1 & u64(a1 == 0)
  const c3 = c2 & u64(a2 == 0)
  store4(d, 0 - a0, ~a1 + c1, ~a2 + c2, ~a3 + c3)
}

/** Computes the upper half of a product of two limbs. */
// @ts-ignore: decorator
@inline
export function mulh(a: u64, b: u64): u64 {
  const aLow = a & 0xffffffff
  const aHigh = a >> 32
  const bLow = b & 0xffffffff
  const bHigh = b >> 32
  // The four products are independent of each other.
  const cross = aHigh * bLow
  const other = aLow * bHigh
  const middle = ((aLow * bLow) >> 32) + (cross & 0xffffffff) + (other & 0xffffffff)
  return aHigh * bHigh + (cross >> 32) + (other >> 32) + (middle >> 32)
}

export function mul(d: usize, p: usize, q: usize): void {
  const a0 = load<u64>(p)
  const b0 = load<u64>(q)
  const aHigh = hi3(p)
  const bHigh = hi3(q)
  if ((aHigh | bHigh) == 0) {
    store4(d, a0 * b0, mulh(a0, b0), 0, 0)
    return
  }
  if (aHigh == 0) return mulLimb(d, q, a0)
  if (bHigh == 0) return mulLimb(d, p, b0)
  const a1 = load<u64>(p, 8)
  const a2 = load<u64>(p, 16)
  const a3 = load<u64>(p, 24)
  const b1 = load<u64>(q, 8)
  const b2 = load<u64>(q, 16)
  const b3 = load<u64>(q, 24)
  // Both operands are small signed numbers, such as ticks and deltas.
  const s = <u64>(<i64>a0 >> 63)
  const t = <u64>(<i64>b0 >> 63)
  if (((a1 ^ s) | (a2 ^ s) | (a3 ^ s) | (b1 ^ t) | (b2 ^ t) | (b3 ^ t)) == 0) {
    const high = mulh(a0, b0) - (s & b0) - (t & a0)
    const sign = <u64>(<i64>high >> 63)
    store4(d, a0 * b0, high, sign, sign)
    return
  }
  // Each limb of the result is the sum of its column's products, with carries into the next.
  let r1 = mulh(a0, b0)
  let x = a0 * b1
  r1 += x
  let carry = u64(r1 < x)
  x = a1 * b0
  r1 += x
  carry += u64(r1 < x)
  let r2 = carry
  x = mulh(a0, b1)
  r2 += x
  carry = u64(r2 < x)
  x = mulh(a1, b0)
  r2 += x
  carry += u64(r2 < x)
  x = a0 * b2
  r2 += x
  carry += u64(r2 < x)
  x = a1 * b1
  r2 += x
  carry += u64(r2 < x)
  x = a2 * b0
  r2 += x
  carry += u64(r2 < x)
  const r3 = carry + mulh(a0, b2) + mulh(a1, b1) + mulh(a2, b0) + a0 * b3 + a1 * b2 + a2 * b1 + a3 * b0
  store4(d, a0 * b0, r1, r2, r3)
}

/** Multiplies a word by one limb. */
function mulLimb(d: usize, p: usize, b: u64): void {
  const a0 = load<u64>(p)
  const a1 = load<u64>(p, 8)
  const a2 = load<u64>(p, 16)
  const a3 = load<u64>(p, 24)
  const h0 = mulh(a0, b)
  const r1 = a1 * b + h0
  const h1 = mulh(a1, b) + u64(r1 < h0)
  const r2 = a2 * b + h1
  const h2 = mulh(a2, b) + u64(r2 < h1)
  store4(d, a0 * b, r1, r2, a3 * b + h2)
}

/**
 * Computes base ^ exponent from the exponent's top bit down. The factor is the base, which is small
 * in code like 10 ** n.
 */
export function exp(d: usize, base: usize, exponent: usize): void {
  set64(POWER, 1)
  for (let at = 255 - leadingZeros(exponent); at >= 0; at--) {
    mul(POWER, POWER, POWER)
    const limb = load<u64>(exponent + ((<usize>at >> 6) << 3))
    if ((limb >> (at & 63)) & 1) mul(POWER, POWER, base)
  }
  copy(d, POWER)
}

/** @param bits below 256 */
// @ts-ignore: decorator
@inline
export function shl(d: usize, p: usize, bits: u64): void {
  let a0 = load<u64>(p)
  let a1 = load<u64>(p, 8)
  let a2 = load<u64>(p, 16)
  let a3 = load<u64>(p, 24)
  if (bits & 128) {
    a3 = a1
    a2 = a0
    a1 = 0
    a0 = 0
  }
  if (bits & 64) {
    a3 = a2
    a2 = a1
    a1 = a0
    a0 = 0
  }
  const left = bits & 63
  const right = 63 - left
  store4(d, a0 << left, (a1 << left) | ((a0 >> 1) >> right), (a2 << left) | ((a1 >> 1) >> right), (a3 << left) | ((a2 >> 1) >> right))
}

/** Shifts to the right and fills with `fill`, 0 or all ones. */
// @ts-ignore: decorator
@inline
function shiftRight(d: usize, p: usize, bits: u64, fill: u64): void {
  let a0 = load<u64>(p)
  let a1 = load<u64>(p, 8)
  let a2 = load<u64>(p, 16)
  let a3 = load<u64>(p, 24)
  if (bits & 128) {
    a0 = a2
    a1 = a3
    a2 = fill
    a3 = fill
  }
  if (bits & 64) {
    a0 = a1
    a1 = a2
    a2 = a3
    a3 = fill
  }
  const right = bits & 63
  const left = 63 - right
  store4(d, (a0 >> right) | ((a1 << 1) << left), (a1 >> right) | ((a2 << 1) << left), (a2 >> right) | ((a3 << 1) << left), (a3 >> right) | ((fill << 1) << left))
}

/** @param bits below 256 */
// @ts-ignore: decorator
@inline
export function shr(d: usize, p: usize, bits: u64): void {
  shiftRight(d, p, bits, 0)
}

/** @param bits below 256 */
export function sar(d: usize, p: usize, bits: u64): void {
  shiftRight(d, p, bits, <u64>(load<i64>(p, 24) >> 63))
}

/**
 * Repeats the top bit of byte k, counted from the lowest.
 * @param k below 31
 */
export function signextend(d: usize, k: u64, p: usize): void {
  const unused = 56 - ((k & 7) << 3)
  const from = <usize>(k & ~7)
  const limb = (load<i64>(p + from) << unused) >> unused
  copy(d, p)
  store<i64>(d + from, limb)
  for (let at = from + 8; at < 32; at += 8) store<i64>(d + at, limb >> 63)
}
