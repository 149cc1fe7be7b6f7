/**
 * The pairing curves of mcl's WebAssembly; no other file reads that package. The package itself
 * compiles behind a promise and has one curve at a time. Here each curve has an instance, made
 * synchronously at the first use.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Bytes } from '../../primitives/bytes.ts'

/**
 * Arguments are pointers into mcl's memory and numbers; results are written to the first pointer.
 */
type Exports = {
  __wasm_call_ctors(): void
  malloc(bytes: number): number
  mclBn_init(curve: number, sizes: number): number
  mclBn_setMapToMode(mode: number): number
  mclBn_verifyOrderG1(isWanted: number): void
  mclBn_verifyOrderG2(isWanted: number): void

  mclBnFp_setInt32(z: number, value: number): void
  mclBnFp_setBigEndianMod(z: number, buffer: number, bytes: number): number
  mclBnFp_getLittleEndian(buffer: number, max: number, x: number): number
  mclBnFp_sqr(z: number, x: number): void
  mclBnFp_mul(z: number, x: number, y: number): void
  mclBnFp_add(z: number, x: number, y: number): void
  mclBnFp_neg(z: number, x: number): void
  mclBnFp2_mul(z: number, x: number, y: number): void
  mclBnFp_squareRoot(z: number, x: number): number
  mclBnFp_mapToG1(z: number, x: number): number
  mclBnFp2_mapToG2(z: number, x: number): number
  mclBnFr_setBigEndianMod(z: number, buffer: number, bytes: number): number
  mclBnFr_neg(z: number, x: number): void

  mclBnG1_clear(z: number): void
  mclBnG1_isValid(x: number): number
  mclBnG1_isValidOrder(x: number): number
  mclBnG1_isZero(x: number): number
  mclBnG1_normalize(z: number, x: number): void
  mclBnG1_neg(z: number, x: number): void
  mclBnG1_add(z: number, x: number, y: number): void
  mclBnG1_mul(z: number, x: number, scalar: number): void
  /** Overwrites the points. */
  mclBnG1_mulVec(z: number, points: number, scalars: number, count: number): void
  mclBnG2_clear(z: number): void
  mclBnG2_isValid(x: number): number
  mclBnG2_isValidOrder(x: number): number
  mclBnG2_isZero(x: number): number
  mclBnG2_normalize(z: number, x: number): void
  mclBnG2_isEqual(x: number, y: number): number
  mclBnG2_neg(z: number, x: number): void
  mclBnG2_dbl(z: number, x: number): void
  mclBnG2_add(z: number, x: number, y: number): void
  mclBnG2_mulVec(z: number, points: number, scalars: number, count: number): void

  mclBnGT_setInt32(z: number, value: number): void
  mclBnGT_mul(z: number, x: number, y: number): void
  mclBnGT_isOne(x: number): number
  mclBn_millerLoopVec(z: number, g1: number, g2: number, count: number): void
  mclBn_finalExp(z: number, x: number): void
  mclBn_getUint64NumToPrecompute(): number
  mclBn_precomputeG2(lines: number, g2: number): void
  mclBn_precomputedMillerLoop(z: number, g1: number, lines: number): void
  mclBn_precomputedMillerLoop2(z: number, g1: number, lines: number, h1: number, more: number): void
}

/** Sizes in mcl's memory, equal for both curves. */
export const FP_BYTES = 48
export const FR_BYTES = 32
export const G1_BYTES = 3 * FP_BYTES
export const G2_BYTES = 6 * FP_BYTES
export const GT_BYTES = 12 * FP_BYTES

/** mcl's constants. */
const CURVES = { bn254: 4, bls12: 5 } as const
const SIZES = 46
/** mcl's mode for hashing to curves by RFC 9380. */
const MAP_TO_MODE = 5
const PAGES = 32
/** Size of the buffer for encoded numbers. */
const BUFFER_BYTES = 64

export type Curve = Exports & {
  /** Allocates memory that is never freed. */
  scratch(bytes: number): number
  /** Writes a field element from big-endian bytes below the field's order. */
  putElement(at: number, bytes: Bytes): void
  /** Writes a scalar from bytes, modulo the order of the groups. */
  putScalar(at: number, bytes: Bytes): void
  /** Writes the element big endian to the end of `to`, which must be zero. */
  getElement(at: number, to: Bytes): void
  move(to: number, from: number, bytes: number): void
  /** Sets the third coordinate to 1 after the other coordinates were written. */
  finishG1(at: number): void
  finishG2(at: number): void
}

export function openCurve(name: keyof typeof CURVES): Curve {
  const memory = new WebAssembly.Memory({ initial: PAGES })
  const instance = new WebAssembly.Instance(moduleOfPackage(), { env: { memory } })
  const exports = instance.exports as Exports
  exports.__wasm_call_ctors()
  if (exports.mclBn_init(CURVES[name], SIZES) !== 0) throw new Error(`mcl has no curve ${name}`)
  // mcl's own check is off, because each contract decides which points it accepts.
  exports.mclBn_verifyOrderG1(0)
  exports.mclBn_verifyOrderG2(0)
  if (name === 'bls12' && exports.mclBn_setMapToMode(MAP_TO_MODE) !== 0)
    throw new Error('mcl does not map elements to points')
  let bytes = new Uint8Array(memory.buffer)
  // Growth of the memory detaches earlier views.
  const heap = () => {
    if (bytes.length === 0) bytes = new Uint8Array(memory.buffer)
    return bytes
  }
  const buffer = exports.malloc(BUFFER_BYTES)
  const one = exports.malloc(FP_BYTES)
  exports.mclBnFp_setInt32(one, 1)
  return {
    ...exports,
    scratch(size) {
      const at = exports.malloc(size)
      if (at === 0) throw new Error('mcl has no memory left')
      return at
    },
    putElement(at, element) {
      heap().set(element, buffer)
      exports.mclBnFp_setBigEndianMod(at, buffer, element.length)
    },
    putScalar(at, scalar) {
      heap().set(scalar, buffer)
      exports.mclBnFr_setBigEndianMod(at, buffer, scalar.length)
    },
    getElement(at, to) {
      const length = exports.mclBnFp_getLittleEndian(buffer, BUFFER_BYTES, at)
      const from = heap()
      for (let byte = 0; byte < length; byte++) to[to.length - 1 - byte] = from[buffer + byte]!
    },
    move: (to, from, size) => void heap().copyWithin(to, from, from + size),
    finishG1: (at) => void heap().copyWithin(at + 2 * FP_BYTES, one, one + FP_BYTES),
    finishG2(at) {
      heap().copyWithin(at + 4 * FP_BYTES, one, one + FP_BYTES)
      heap().fill(0, at + 5 * FP_BYTES, at + 6 * FP_BYTES)
    },
  }
}

/**
 * Extracts the WebAssembly from the package. Its version is pinned in package.json, because another
 * version may store it elsewhere.
 * @throws {Error}
 */
function moduleOfPackage(): WebAssembly.Module {
  const path = createRequire(import.meta.url).resolve('mcl-wasm/dist/mcl_c.js')
  const [, base64] = /wasmBase64 = '([A-Za-z0-9+/=]+)'/.exec(readFileSync(path, 'latin1')) ?? []
  if (base64 === undefined) throw new Error(`no WebAssembly in ${path}: run npm ci`)
  return new WebAssembly.Module(Buffer.from(base64, 'base64'))
}
