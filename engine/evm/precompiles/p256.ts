/**
 * P256VERIFY (EIP-7951): digest, r, s, and x and y of the key, a word each. An invalid signature
 * gives empty output and is not a fault. OpenSSL's verification hashes its input, so only its curve
 * arithmetic is used. R = u1·G + u2·Q = u2·(Q + (u1/u2)·G) takes two ECDH multiplications.
 */
import { createECDH } from 'node:crypto'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bigintToBytes, bytesToBigint } from '../../primitives/words.ts'
import { type Contract, fixed, truth } from './contract.ts'

export const p256Verify = (gas: bigint): Contract => ({
  gas: fixed(gas),
  run(input) {
    if (input.length !== 160) return NO_BYTES
    const [digest, r, s, x, y] = [0, 32, 64, 96, 128].map((from) =>
      bytesToBigint(input.subarray(from, from + 32)),
    )
    return isSigned({ digest: digest!, r: r!, s: s!, key: { x: x!, y: y! } })
      ? truth(true)
      : NO_BYTES
  },
})

/** Order of the field, order of the group, and b of y² = x³ − 3x + b. */
const P = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffffn
const N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn

type Point = { readonly x: bigint; readonly y: bigint }

function isSigned(signed: {
  readonly digest: bigint
  readonly r: bigint
  readonly s: bigint
  readonly key: Point
}): boolean {
  const { digest, r, s, key } = signed
  if (r === 0n || r >= N || s === 0n || s >= N || !isOnCurve(key)) return false
  // A single inversion gives both factors: u2 = r/s, and u1/u2 = digest/r.
  const inverse = invert((r * s) % N, N)
  const ratio = (digest * ((inverse * s) % N)) % N
  const factor = (((r * inverse) % N) * r) % N
  // If u1/u2 is zero, the sum is the key itself.
  const sum = ratio === 0n ? key : add(key, multipleOfG(ratio))
  // Only this sum has a multiple at infinity, which has no x.
  if (sum === undefined) return false
  const x = xOfMultiple(factor, sum)
  return x % N === r
}

/** Infinity is encoded as two zeros, which are not on the curve. */
const isOnCurve = ({ x, y }: Point): boolean =>
  x < P && y < P && (y * y - x * x * x + 3n * x - B) % P === 0n

function multipleOfG(scalar: bigint): Point {
  const ecdh = createECDH(CURVE)
  ecdh.setPrivateKey(bigintToBytes(scalar, 32))
  const point = ecdh.getPublicKey()
  return { x: bytesToBigint(point.subarray(1, 33)), y: bytesToBigint(point.subarray(33)) }
}

function xOfMultiple(scalar: bigint, { x, y }: Point): bigint {
  const ecdh = createECDH(CURVE)
  ecdh.setPrivateKey(bigintToBytes(scalar, 32))
  return bytesToBigint(ecdh.computeSecret(encode(x, y)))
}
const CURVE = 'prime256v1'

function encode(x: bigint, y: bigint): Bytes {
  const point = new Uint8Array(65)
  point[0] = 4
  point.set(bigintToBytes(x, 32), 1)
  point.set(bigintToBytes(y, 32), 33)
  return point
}

/** Adds two points; undefined is infinity. */
function add(a: Point, b: Point): Point | undefined {
  const isSameX = a.x === b.x
  if (isSameX && a.y !== b.y) return undefined
  const slope = isSameX
    ? (3n * a.x * a.x - 3n) * invert((2n * a.y) % P, P)
    : (b.y - a.y) * invert(positive(b.x - a.x, P), P)
  const x = positive(slope * slope - a.x - b.x, P)
  return { x, y: positive(slope * (a.x - x) - a.y, P) }
}

/**
 * Inverts by Euclid's algorithm.
 * @param value above 0 and below the prime `modulus`
 */
function invert(value: bigint, modulus: bigint): bigint {
  let [a, b, u, v] = [value, modulus, 1n, 0n]
  while (a !== 0n) {
    const quotient = b / a
    const rest = b - quotient * a
    b = a
    a = rest
    const next = v - quotient * u
    v = u
    u = next
  }
  return positive(v, modulus)
}

function positive(value: bigint, modulus: bigint): bigint {
  const rest = value % modulus
  return rest < 0n ? rest + modulus : rest
}
