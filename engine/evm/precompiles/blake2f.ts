/** BLAKE2F: the compression function of BLAKE2b (RFC 7693, 3.2) with a given number of rounds (EIP-152). */
import type { Bytes } from '../../primitives/bytes.ts'
import { type Contract, Fault, type Poll } from './contract.ts'

/** A round costs 1 gas; input of another length nothing but the whole call. */
export const blake2f: Contract = {
  gas: (input) => (input.length === INPUT_BYTES ? BigInt(viewOf(input).getUint32(0)) : 0n),
  run(input, poll) {
    if (input.length !== INPUT_BYTES) throw new Fault('invalid input length')
    const last = input[212]!
    if (last > 1) throw new Fault('invalid final flag')
    const view = viewOf(input)
    const words = (from: number, count: number) =>
      Uint32Array.from({ length: count }, (_, at) => view.getUint32(from + 4 * at, true))
    const state = words(4, 16)
    const parts = { message: words(68, 32), offset: words(196, 4), isFinal: last === 1 }
    compress({ rounds: view.getUint32(0), state, ...parts }, poll)
    const output = new Uint8Array(64)
    const to = viewOf(output)
    for (const [at, word] of state.entries()) to.setUint32(4 * at, word, true)
    return output
  },
}

/** Rounds, state, message, offset, whether it is the last. */
const INPUT_BYTES = 4 + 64 + 128 + 16 + 1

const viewOf = (bytes: Bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** 64-bit words as pairs of 32 bits, the low one first. */
type Blake2Input = {
  readonly rounds: number
  /** 8 words; becomes the result. */
  readonly state: Uint32Array
  /** 16 words. */
  readonly message: Uint32Array
  /** 2 words. */
  readonly offset: Uint32Array
  readonly isFinal: boolean
}

/** Rounds between two polls: less than a millisecond. */
const ROUNDS_PER_POLL = 1 << 10

function compress({ rounds, state, message, offset, isFinal }: Blake2Input, poll: Poll): void {
  const v = new Uint32Array(32)
  v.set(state)
  v.set(IV, 16)
  for (let at = 0; at < 4; at++) v[24 + at]! ^= offset[at]!
  if (isFinal) for (const at of [28, 29]) v[at] = ~v[at]!
  for (let round = 0; round < rounds; round++) {
    if (round % ROUNDS_PER_POLL === ROUNDS_PER_POLL - 1) poll()
    const s = (round % 10) * 16
    mix(v, message, 0, 8, 16, 24, SIGMA[s]!, SIGMA[s + 1]!)
    mix(v, message, 2, 10, 18, 26, SIGMA[s + 2]!, SIGMA[s + 3]!)
    mix(v, message, 4, 12, 20, 28, SIGMA[s + 4]!, SIGMA[s + 5]!)
    mix(v, message, 6, 14, 22, 30, SIGMA[s + 6]!, SIGMA[s + 7]!)
    mix(v, message, 0, 10, 20, 30, SIGMA[s + 8]!, SIGMA[s + 9]!)
    mix(v, message, 2, 12, 22, 24, SIGMA[s + 10]!, SIGMA[s + 11]!)
    mix(v, message, 4, 14, 16, 26, SIGMA[s + 12]!, SIGMA[s + 13]!)
    mix(v, message, 6, 8, 18, 28, SIGMA[s + 14]!, SIGMA[s + 15]!)
  }
  for (let at = 0; at < 16; at++) state[at]! ^= v[at]! ^ v[at + 16]!
}

/** The RFC's G over the words at a, b, c, d, with the message's words at x and y. Called eight times a round: hence no object. */
function mix(
  v: Uint32Array,
  m: Uint32Array,
  a: number,
  b: number,
  c: number,
  d: number,
  x: number,
  y: number,
): void {
  const b0 = v[b]!
  const b1 = v[b + 1]!
  // a += b + x, d = (d ^ a) >>> 32
  const sum0 = v[a]! + b0 + m[x]!
  const a0 = sum0 >>> 0
  const a1 = (v[a + 1]! + b1 + m[x + 1]! + ((sum0 / CARRY) | 0)) >>> 0
  const d0 = (v[d + 1]! ^ a1) >>> 0
  const d1 = (v[d]! ^ a0) >>> 0
  // c += d, b = (b ^ c) >>> 24
  const sum1 = v[c]! + d0
  const c0 = sum1 >>> 0
  const c1 = (v[c + 1]! + d1 + ((sum1 / CARRY) | 0)) >>> 0
  const e0 = b0 ^ c0
  const e1 = b1 ^ c1
  const f0 = ((e0 >>> 24) | (e1 << 8)) >>> 0
  const f1 = ((e1 >>> 24) | (e0 << 8)) >>> 0
  // a += b + y, d = (d ^ a) >>> 16
  const sum2 = a0 + f0 + m[y]!
  const g0 = sum2 >>> 0
  const g1 = (a1 + f1 + m[y + 1]! + ((sum2 / CARRY) | 0)) >>> 0
  const h0 = d0 ^ g0
  const h1 = d1 ^ g1
  const i0 = ((h0 >>> 16) | (h1 << 16)) >>> 0
  const i1 = ((h1 >>> 16) | (h0 << 16)) >>> 0
  // c += d, b = (b ^ c) >>> 63
  const sum3 = c0 + i0
  const k0 = sum3 >>> 0
  const k1 = (c1 + i1 + ((sum3 / CARRY) | 0)) >>> 0
  const l0 = f0 ^ k0
  const l1 = f1 ^ k1
  v[a] = g0
  v[a + 1] = g1
  v[b] = (l1 >>> 31) | (l0 << 1)
  v[b + 1] = (l0 >>> 31) | (l1 << 1)
  v[c] = k0
  v[c + 1] = k1
  v[d] = i0
  v[d + 1] = i1
}
const CARRY = 2 ** 32

const IV = Uint32Array.of(
  ...[0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1],
  ...[0xa54ff53a, 0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab],
  ...[0x137e2179, 0x5be0cd19],
)
/** Which word of the message comes when: a row of hex digits for each of ten rounds (RFC 7693, 2.7), as places of the low halves. */
const SIGMA = Uint8Array.from(
  [
    '0123456789abcdef',
    'ea489fd61c02b753',
    'b8c052fdae367194',
    '7931dcbe265a40f8',
    '905724afe1bc683d',
    '2c6a0b834d75fe19',
    'c51fed4a0763928b',
    'db7ec13950f4862a',
    '6fe9b308c2d714a5',
    'a2847615fb9e3cd0',
  ].join(''),
  (digit) => 2 * Number.parseInt(digit, 16),
)
