/** The engine's words are compared with BigInt, and its hash with another implementation. */
import { keccak_256 } from '@noble/hashes/sha3.js'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { BY_BITS, CORNERS, ON_WORDS, OPERANDS, signextend, TO_NUMBER } from './arithmetic.ts'
import { compiled } from './compiled.ts'

let memory: WebAssembly.Memory
let exported: Record<string, (...args: readonly (number | bigint)[]) => number>

beforeAll(async () => {
  const names = ['u256', 'divide', 'keccak']
  const module = await compiled(...names.map((name) => `asm/primitives/${name}.ts`))
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module))
  memory = (exports as { readonly memory: WebAssembly.Memory }).memory
  exported = exports as typeof exported
})

/** The test's words are in memory after the module's own data. */
const AT = [0, 1, 2, 3].map((operand) => 32_768 + 32 * operand)

function put(operand: number, value: bigint): void {
  const view = new DataView(memory.buffer)
  for (const limb of [0, 1, 2, 3])
    view.setBigUint64(AT[operand]! + 8 * limb, value >> BigInt(64 * limb), true)
}

function get(operand: number): bigint {
  const limbs = new BigUint64Array(memory.buffer, AT[operand], 4)
  return limbs.reduceRight((word, limb) => (word << 64n) | limb, 0n)
}

/** Gives all results, with the result at its own address and at each operand's address. */
function everySlot(name: string, operands: readonly bigint[]): bigint[] {
  return [0, ...operands.map((_, at) => at + 1)].map((to) => {
    for (const [at, operand] of operands.entries()) put(at + 1, operand)
    exported[name]!(AT[to]!, ...operands.map((_, at) => AT[at + 1]!))
    return get(to)
  })
}

const limb = fc.oneof(
  fc.constantFrom(0n, 1n, 1n << 63n, (1n << 63n) - 1n, (1n << 64n) - 1n, (1n << 64n) - 2n),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
)
const word = fc.oneof(
  fc.constantFrom(...CORNERS),
  fc.tuple(limb, limb, limb, limb).map((limbs) => limbs.reduce((all, one) => (all << 64n) | one)),
  fc
    .tuple(fc.bigInt({ min: 0n, max: (1n << 256n) - 1n }), fc.nat(255))
    .map(([n, bits]) => n >> BigInt(bits)),
)
const RUNS = { numRuns: 5_000 }

describe('a word function', () => {
  test.each(Object.keys(ON_WORDS))('gives the result of BigInt: %s', (name) => {
    const expected = ON_WORDS[name]!
    const count = OPERANDS[name] ?? 2
    const check = (operands: readonly bigint[]) => {
      const result = expected(...operands)
      expect(everySlot(name, operands)).toEqual(Array(count + 1).fill(result))
    }
    if (count === 2) for (const a of CORNERS) for (const b of CORNERS) check([a, b])
    const operands = fc.array(word, { minLength: count, maxLength: count })
    fc.assert(fc.property(operands, check), RUNS)
  })

  test.each(Object.keys(BY_BITS))('gives the result of BigInt: %s', (name) => {
    for (const a of CORNERS)
      for (let bits = 0n; bits < 256n; bits++) checkBy(name, a, [bits, BY_BITS[name]!(a, bits)])
    fc.assert(
      fc.property(word, fc.bigInt({ min: 0n, max: 255n }), (a, bits) =>
        checkBy(name, a, [bits, BY_BITS[name]!(a, bits)]),
      ),
      RUNS,
    )
  })
  function checkBy(name: string, a: bigint, [bits, result]: readonly [bigint, bigint]): void {
    for (const to of [0, 1]) {
      put(1, a)
      exported[name]!(AT[to]!, AT[1]!, bits)
      expect(get(to)).toBe(result)
    }
  }

  test('gives the result of BigInt: signextend', () => {
    fc.assert(
      fc.property(word, fc.bigInt({ min: 0n, max: 30n }), (a, k) => {
        for (const to of [0, 1]) {
          put(1, a)
          exported['signextend']!(AT[to]!, k, AT[1]!)
          expect(get(to)).toBe(signextend(a, k))
        }
      }),
      RUNS,
    )
  })

  test.each(Object.keys(TO_NUMBER))('gives the result of BigInt: %s', (name) => {
    const check = (a: bigint, b: bigint) => {
      put(1, a)
      put(2, b)
      expect(exported[name]!(AT[1]!, AT[2]!)).toBe(TO_NUMBER[name]!(a, b))
    }
    for (const a of CORNERS) for (const b of CORNERS) check(a, b)
    fc.assert(fc.property(word, word, check), RUNS)
  })

  test('gives the result of BigInt: mulFull', () => {
    fc.assert(
      fc.property(word, word, (a, b) => {
        put(2, a)
        put(3, b)
        exported['mulFull']!(AT[0]!, AT[2]!, AT[3]!)
        expect((get(1) << 256n) | get(0)).toBe(a * b)
      }),
      RUNS,
    )
  })
})

describe('keccak256', () => {
  const check = (input: Uint8Array) => {
    new Uint8Array(memory.buffer).set(input, AT[1])
    exported['keccak256']!(AT[0]!, AT[1]!, input.length)
    expect(new Uint8Array(memory.buffer, AT[0], 32)).toEqual(keccak_256(input))
  }
  test('hashes every length up to three blocks like noble', () => {
    for (let length = 0; length <= 3 * 136 + 1; length++)
      check(Uint8Array.from({ length }, (_, at) => at * 7 + length))
  })
  test('hashes random bytes like noble', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 2_000 }), check), { numRuns: 500 })
  })
})
