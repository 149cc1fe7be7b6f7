/**
 * Pairings and sums over curves, in parts between which the deadline is looked at: in one piece the largest that a block can pay for take
 * the package five seconds. What it makes of an error thrown here is a failed contract; whoever calls that looks at the deadline again.
 */
import { EVMError, NobleBLS, NobleBN254 } from '@ethereumjs/evm'
import { bls12_381 } from '@noble/curves/bls12-381.js'
import { bn254 } from '@noble/curves/bn254.js'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToBigint, concatBytes } from '../../primitives/words.ts'

/** Pairs of one part: 50 ms. */
const PAIRS = 4
/** Terms of a sum of one part: 30 to 40 ms. */
const TERMS_G1 = 8
const TERMS_G2 = 4

/** @throws {Stopped} by `poll` */
export class PolledBls extends NobleBLS {
  readonly #poll: () => void

  constructor(poll: () => void) {
    super()
    this.#poll = poll
  }

  override msmG1(input: Bytes): Bytes {
    return this.#sum(input, TERMS_G1 * 160, {
      sum: (part) => super.msmG1(part),
      add: (both) => super.addG1(both),
    })
  }

  override msmG2(input: Bytes): Bytes {
    return this.#sum(input, TERMS_G2 * 288, {
      sum: (part) => super.msmG2(part),
      add: (both) => super.addG2(both),
    })
  }

  override pairingCheck(input: Bytes): Bytes {
    const { G1, G2, fields } = bls12_381
    const number = elementAt(fields.Fp.ORDER, 64)
    return isOne(bls12_381, input, {
      bytes: 384,
      poll: this.#poll,
      pointsOf(at) {
        const [x, y] = [number(input, at), number(input, at + 64)]
        const [x0, x1, y0, y1] = [128, 192, 256, 320].map((from) => number(input, at + from))
        return {
          g1: x === 0n && y === 0n ? G1.Point.ZERO : G1.Point.fromAffine({ x, y }),
          g2:
            x0 === 0n && x1 === 0n && y0 === 0n && y1 === 0n
              ? G2.Point.ZERO
              : G2.Point.fromAffine({ x: { c0: x0!, c1: x1! }, y: { c0: y0!, c1: y1! } }),
        }
      },
    })
  }

  #sum(
    input: Bytes,
    bytes: number,
    of: { readonly sum: (part: Bytes) => Bytes; readonly add: (both: Bytes) => Bytes },
  ): Bytes {
    let total: Bytes | undefined
    for (let from = 0; from < input.length; from += bytes) {
      this.#poll()
      const part = of.sum(input.subarray(from, from + bytes))
      total = total === undefined ? part : of.add(concatBytes(total, part))
    }
    return total ?? of.sum(input)
  }
}

/** @throws {Stopped} by `poll` */
export class PolledBn254 extends NobleBN254 {
  readonly #poll: () => void

  constructor(poll: () => void) {
    super()
    this.#poll = poll
  }

  override pairing(input: Bytes): Bytes {
    const { G1, G2, fields } = bn254
    const number = elementAt(fields.Fp.ORDER, 32)
    return isOne(bn254, input, {
      bytes: 192,
      poll: this.#poll,
      pointsOf(at) {
        const [x, y] = [number(input, at), number(input, at + 32)]
        // Ethereum has the imaginary part first (EIP-197).
        const [x1, x0, y1, y0] = [64, 96, 128, 160].map((from) => number(input, at + from))
        return {
          g1: x === 0n && y === 0n ? G1.Point.ZERO : G1.Point.fromAffine({ x, y }),
          g2:
            x0 === 0n && x1 === 0n && y0 === 0n && y1 === 0n
              ? G2.Point.ZERO
              : G2.Point.fromAffine({ x: { c0: x0!, c1: x1! }, y: { c0: y0!, c1: y1! } }),
        }
      },
    })
  }
}

type Curve = typeof bls12_381 | typeof bn254
type Pair = Parameters<typeof bls12_381.pairingBatch>[0][number]

/** The product of the pairings, as a word: 1 where it is one, else 0. A pair with a point at infinity is one. @throws {EVMError} */
function isOne(
  { pairingBatch, fields: { Fp12 } }: Curve,
  input: Bytes,
  pairs: {
    readonly bytes: number
    readonly poll: () => void
    /** Of the pair that begins there. */
    readonly pointsOf: (at: number) => Pair
  },
): Bytes {
  const { bytes, poll, pointsOf } = pairs
  let product = Fp12.ONE
  let part: Pair[] = []
  for (let at = 0; at < input.length; at += bytes) {
    const pair = checked(() => pointsOf(at))
    if (!pair.g1.is0() && !pair.g2.is0()) part.push(pair)
    if (part.length < PAIRS && at + bytes < input.length) continue
    poll()
    if (part.length > 0) product = Fp12.mul(product, pairingBatch(part, false))
    part = []
  }
  const word = new Uint8Array(32)
  if (Fp12.eql(Fp12.finalExponentiate(product), Fp12.ONE)) word[31] = 1
  return word
}

/** @throws {EVMError} where a point is not one of its group */
function checked(read: () => Pair): Pair {
  try {
    const pair = read()
    for (const point of [pair.g1, pair.g2]) if (!point.is0()) point.assertValidity()
    return pair
  } catch {
    throw new EVMError(EVMError.errorMessages.BLS_12_381_POINT_NOT_ON_CURVE)
  }
}

/** @throws {RangeError} for a number that is not in the field */
const elementAt = (order: bigint, bytes: number) => (input: Bytes, at: number) => {
  const number = bytesToBigint(input.subarray(at, at + bytes))
  if (number >= order) throw new RangeError('not in the field')
  return number
}
