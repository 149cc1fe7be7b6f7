/** Reads and writes points of BLS12-381 between EIP-2537's encoding and mcl's memory. */
import type { Bytes } from '../../primitives/bytes.ts'
import { bigintToBytes, compareBytes } from '../../primitives/words.ts'
import { Fault, lazily } from './contract.ts'
import { type Curve, FP_BYTES, openCurve } from './mcl.ts'

/** Size of an encoded field element. */
export const ELEMENT_BYTES = 64
export const POINT_BYTES = { g1: 2 * ELEMENT_BYTES, g2: 4 * ELEMENT_BYTES } as const

export const FIELD =
  0x1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaabn
const MODULUS = bigintToBytes(FIELD, FP_BYTES)
const PADDING = ELEMENT_BYTES - FP_BYTES

export const bls12 = lazily((): Curve => openCurve('bls12'))

/** The values and functions that differ between G1 and G2. */
export type Group = {
  readonly name: 'g1' | 'g2'
  /** Size of an encoded point. */
  readonly bytes: number
  /** Size in mcl's memory: x, y and a third coordinate. */
  readonly size: number
  readonly elements: number
  readonly clear: (z: number) => void
  readonly finish: (at: number) => void
  readonly isOnCurve: (at: number) => number
  readonly isInSubgroup: (at: number) => number
  readonly isZero: (at: number) => number
  readonly normalize: (z: number, x: number) => void
  readonly add: (z: number, x: number, y: number) => void
  readonly sumOfProducts: (z: number, points: number, scalars: number, count: number) => void
}

export const g1 = lazily((): Group => {
  const mcl = bls12()
  return {
    name: 'g1',
    bytes: POINT_BYTES.g1,
    size: 3 * FP_BYTES,
    elements: 2,
    clear: mcl.mclBnG1_clear,
    finish: mcl.finishG1,
    isOnCurve: mcl.mclBnG1_isValid,
    isInSubgroup: mcl.mclBnG1_isValidOrder,
    isZero: mcl.mclBnG1_isZero,
    normalize: mcl.mclBnG1_normalize,
    add: mcl.mclBnG1_add,
    sumOfProducts: mcl.mclBnG1_mulVec,
  }
})

export const g2 = lazily((): Group => {
  const mcl = bls12()
  return {
    name: 'g2',
    bytes: POINT_BYTES.g2,
    size: 6 * FP_BYTES,
    elements: 4,
    clear: mcl.mclBnG2_clear,
    finish: mcl.finishG2,
    isOnCurve: mcl.mclBnG2_isValid,
    isInSubgroup: mcl.mclBnG2_isValidOrder,
    isZero: mcl.mclBnG2_isZero,
    normalize: mcl.mclBnG2_normalize,
    add: mcl.mclBnG2_add,
    sumOfProducts: mcl.mclBnG2_mulVec,
  }
})

/**
 * Reads a point and checks that it is on the curve, in any subgroup.
 * @returns false for the point at infinity
 */
export function readPoint(group: Group, input: Bytes, range: readonly [from: number, to: number]) {
  const [from, to] = range
  let isZero = true
  for (let element = 0; element < group.elements; element++)
    if (!readElement(input, from + element * ELEMENT_BYTES, to + element * FP_BYTES)) isZero = false
  if (isZero) group.clear(to)
  else {
    group.finish(to)
    if (group.isOnCurve(to) !== 1) throw new Fault('invalid point: not on curve')
  }
  return !isZero
}

/** Checks that a point is in the subgroup, which the point at infinity always is. */
export function checkSubgroup(group: Group, at: number, isNotZero: boolean): void {
  if (isNotZero && group.isInSubgroup(at) !== 1)
    throw new Fault(`${group.name} point is not on correct subgroup`)
}

/**
 * Reads 16 zeros and then 48 bytes that must be below the field's order.
 * @returns true if the element is zero
 */
export function readElement(input: Bytes, from: number, to: number): boolean {
  for (let at = from; at < from + PADDING; at++)
    if (input[at] !== 0) throw new Fault('invalid field element top bytes')
  const element = input.subarray(from + PADDING, from + ELEMENT_BYTES)
  if (compareBytes(element, MODULUS) >= 0) throw new Fault('invalid fp.Element encoding')
  bls12().putElement(to, element)
  return element.every((byte) => byte === 0)
}

export function writePoint(group: Group, at: number): Bytes {
  const output = new Uint8Array(group.bytes)
  if (group.isZero(at) === 1) return output
  group.normalize(at, at)
  for (let element = 0; element < group.elements; element++) {
    const end = (element + 1) * ELEMENT_BYTES
    bls12().getElement(at + element * FP_BYTES, output.subarray(end - FP_BYTES, end))
  }
  return output
}
