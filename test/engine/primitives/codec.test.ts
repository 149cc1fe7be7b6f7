/** Hex, words, hashes, signatures and RLP are compared with other libraries. */
import { secp256k1 } from '@noble/curves/secp256k1.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import fc from 'fast-check'
import { privateKeyToAddress } from 'viem/accounts'
import { describe, expect, test } from 'vitest'
import { checksum } from '../../../engine/primitives/checksum.ts'
import { bytesToHex, hexToBytes, quantity } from '../../../engine/primitives/hex.ts'
import {
  EMPTY_HASH,
  EMPTY_OMMERS,
  EMPTY_ROOT,
  keccak256,
} from '../../../engine/primitives/keccak.ts'
import {
  checkRlp,
  decodeRlp,
  encodeRlp,
  RlpError,
  type RlpItem,
  readFixed,
  readList,
  readUint,
  rlpUint,
} from '../../../engine/primitives/rlp.ts'
import {
  addressOfKey,
  CURVE_ORDER,
  MAX_LOW_S,
  recoverAddress,
  sign,
} from '../../../engine/primitives/signature.ts'
import {
  bigintToBytes,
  byteLength,
  bytesToBigint,
  compareBytes,
  concatBytes,
  equalBytes,
} from '../../../engine/primitives/words.ts'
import { encodeRlp as encodeByEthers } from '../../clients/ethers.ts'
import { bytesOf, privateKeys } from '../../fixtures/references.ts'

describe('hex', () => {
  test('decodes to the bytes that were encoded', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(hexToBytes(bytesToHex(bytes))).toEqual(bytes)
        expect(hexToBytes(bytesToHex(bytes).toUpperCase().replace('X', 'x'))).toEqual(bytes)
      }),
    )
  })
  test.each(['', '0', '1234', '0x1', '0xzz', '0x12zz', '0x123', 'x12', '0X12'])(
    'refuses %j',
    (hex) => {
      expect(() => hexToBytes(hex)).toThrow(RangeError)
    },
  )
  test('decodes to a buffer of its own', () => {
    expect(hexToBytes('0x1234').buffer.byteLength).toBe(2)
  })
  test.each([
    [0n, '0x0'],
    [0, '0x0'],
    [255n, '0xff'],
    [1n << 255n, `0x8${'0'.repeat(63)}`],
  ] as const)('encodes the quantity %s', (value, expected) => {
    expect(quantity(value)).toBe(expected)
  })
  test('refuses a negative quantity', () => {
    expect(() => quantity(-1)).toThrow('a quantity cannot be negative: -1')
  })
})

describe('the bytes of a number', () => {
  test('decode to the number that was encoded', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.nat(), (length, seed) => {
        const value = BigInt(seed) ** 9n % (1n << BigInt(length * 8))
        const bytes = bigintToBytes(value, length)
        expect(bytes.length).toBe(length)
        expect(bytesToBigint(bytes)).toBe(value)
      }),
    )
  })
  test('have the value of their hex digits, at each length', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 70 }), fc.nat({ max: 9 }), (bytes, offset) => {
        const view = concatBytes(new Uint8Array(offset), bytes).subarray(offset)
        const digits = Buffer.from(bytes).toString('hex')
        const value = BigInt(`0x0${digits}`)
        expect(bytesToBigint(view)).toBe(value)
        expect(bigintToBytes(value, bytes.length)).toEqual(bytes)
        expect(byteLength(value)).toBe(digits.replace(/^(00)*/, '').length / 2)
      }),
      { numRuns: 500 },
    )
  })
  test('refuse a number that does not fit', () => {
    expect(() => bigintToBytes(256n, 1)).toThrow('256 does not fit into 1 bytes')
    expect(() => bigintToBytes(-1n, 4)).toThrow(RangeError)
    expect(bigintToBytes(0xffn, 1)).toEqual(Uint8Array.of(255))
  })
  test('compare like Buffer', () => {
    const short = fc.uint8Array({ maxLength: 3, max: 2 })
    fc.assert(
      fc.property(short, short, (a, b) => {
        expect(Math.sign(compareBytes(a, b))).toBe(Buffer.compare(a, b))
        expect(equalBytes(a, b)).toBe(Buffer.compare(a, b) === 0)
        expect(concatBytes(a, b, a)).toEqual(Uint8Array.from([...a, ...b, ...a]))
      }),
    )
  })
})

describe('a hash', () => {
  test('is the Keccak-256 of noble', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
        expect(keccak256(bytes)).toEqual(keccak_256(bytes))
      }),
    )
  })
  test('of nothing, of an empty trie and of no ommers is a constant', () => {
    expect(EMPTY_HASH).toEqual(keccak_256(new Uint8Array()))
    expect(EMPTY_ROOT).toEqual(keccak_256(reference(new Uint8Array())))
    expect(EMPTY_OMMERS).toEqual(keccak_256(reference([])))
  })
  test('stays unchanged when the next one is made', () => {
    const first = keccak256(Uint8Array.of(1))
    const copy = first.slice()
    keccak256(Uint8Array.of(2))
    expect(first).toEqual(copy)
  })
  // XXH3 of nothing, seed 0, from the sanity tests of the xxHash specification.
  test('by XXH3 matches its specification', () => {
    expect(checksum(new Uint8Array())).toBe(0x2d06800538d394c2n)
  })
})

describe('a signature', () => {
  test('equals that of noble, and its address is recovered from it', () => {
    fc.assert(
      fc.property(privateKeys, bytesOf(32), (key, hash) => {
        const ours = sign(hash, key)
        const compact = secp256k1.sign(hash, key, { prehash: false })
        expect(ours.r).toBe(bytesToBigint(compact.subarray(0, 32)))
        expect(ours.s).toBe(bytesToBigint(compact.subarray(32)))
        expect(ours.s <= MAX_LOW_S).toBe(true)
        const address = addressOfKey(key)
        expect(bytesToHex(address)).toBe(privateKeyToAddress(bytesToHex(key)).toLowerCase())
        expect(recoverAddress(hash, ours.r, ours.s, ours.yParity)).toEqual(address)
        const highS = CURVE_ORDER - ours.s
        const flipped = ours.yParity === 0 ? 1 : 0
        expect(recoverAddress(hash, ours.r, highS, flipped)).toEqual(address)
      }),
      { numRuns: 50 },
    )
  })
  const hash = new Uint8Array(32).fill(7)
  test.each([
    ['r is zero', 0n, 1n],
    ['s is zero', 1n, 0n],
    ['r is the order', CURVE_ORDER, 1n],
    ['s is the order', 1n, CURVE_ORDER],
    ['no curve point has this x', 5n, 1n],
    ['r is too wide', 1n << 256n, 1n],
  ])('has no key when %s', (_name, r, s) => {
    expect(recoverAddress(hash, r, s, 0)).toBeUndefined()
  })
  test.each([
    ['zero', new Uint8Array(32)],
    ['the order', bigintToBytes(CURVE_ORDER, 32)],
    ['short', new Uint8Array(31).fill(1)],
  ])('cannot be made with a key that is %s', (_name, key) => {
    expect(() => sign(hash, key)).toThrow(RangeError)
    expect(() => addressOfKey(key)).toThrow(RangeError)
  })
})

/** Encodes RLP by ethers. */
function reference(item: RlpItem): Uint8Array {
  type Digits = string | Digits[]
  const digits = (part: RlpItem): Digits =>
    part instanceof Uint8Array ? bytesToHex(part) : part.map(digits)
  return hexToBytes(encodeByEthers(digits(item)))
}
function minimal(value: bigint): Uint8Array {
  const digits = value === 0n ? '' : value.toString(16)
  return Uint8Array.from(
    Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex'),
  )
}

const items = fc.letrec<{ item: RlpItem }>((tie) => ({
  item: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.uint8Array({ maxLength: 80 }),
    fc.array(tie('item'), { maxLength: 20 }),
  ),
})).item

const refusalOf = (read: () => unknown): string | undefined => {
  try {
    read()
  } catch (error) {
    if (error instanceof RlpError) return error.message
    throw error
  }
  return undefined
}

describe('RLP', () => {
  test('encodes like ethers and decodes what it encoded', () => {
    fc.assert(
      fc.property(items, (item) => {
        const encoded = encodeRlp(item)
        expect(encoded).toEqual(reference(item))
        expect(decodeRlp(encoded)).toEqual(item)
      }),
    )
  })
  test.each([55, 56, 255, 256, 65_535, 65_536, 70_000])('encodes strings of %i bytes', (length) => {
    const bytes = new Uint8Array(length).fill(9)
    expect(encodeRlp(bytes)).toEqual(reference(bytes))
    expect(encodeRlp([bytes])).toEqual(reference([bytes]))
    expect(decodeRlp(encodeRlp([bytes]))).toEqual([bytes])
  })
  test('decodes any bytes to an item that encodes to them, or refuses them', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc
        .array(
          fc.constantFrom(
            0,
            1,
            0x7f,
            0x80,
            0x81,
            0xb7,
            0xb8,
            0xb9,
            0xbf,
            0xc0,
            0xc1,
            0xf7,
            0xf8,
            0xff,
          ),
        )
        .map((list) => Uint8Array.from(list)),
    )
    fc.assert(
      fc.property(bytes, (data) => {
        const item = decodedOrRefused(data)
        if (item !== undefined) expect(encodeRlp(item)).toEqual(data)
        expect(refusalOf(() => checkRlp(data))).toEqual(refusalOf(() => decodeRlp(data)))
      }),
      { numRuns: 2000 },
    )
  })
  test('refuses in its check what decoding refuses, for the same reason', () => {
    const change = fc.record({ at: fc.nat(400), to: fc.integer({ min: 0, max: 255 }) })
    let refusals = 0
    fc.assert(
      fc.property(items, fc.array(change, { maxLength: 3 }), fc.nat(3), (item, changes, less) => {
        const data = encodeRlp(item)
        for (const { at, to } of changes) data[at % data.length] = to
        const cut = data.subarray(0, Math.max(0, data.length - less))
        const refusal = refusalOf(() => decodeRlp(cut))
        if (refusal !== undefined) refusals++
        expect(refusalOf(() => checkRlp(cut))).toEqual(refusal)
      }),
      { numRuns: 3000 },
    )
    expect(refusals).toBeGreaterThan(300)
  })
  test.each([16, 17, 40])('accepts at most 16 nested lists: %i deep', (depth) => {
    let data: Uint8Array = Uint8Array.of(0xc0)
    for (let level = 1; level < depth; level++)
      data = Uint8Array.of(
        ...(data.length > 55 ? [0xf8, data.length] : [0xc0 + data.length]),
        ...data,
      )
    expect(refusalOf(() => checkRlp(data))).toEqual(refusalOf(() => decodeRlp(data)))
    expect(refusalOf(() => checkRlp(data)) === undefined).toBe(depth <= 16)
  })
  const refused: [name: string, hex: string, message: string][] = [
    ['nothing', '0x', 'unexpected EOF'],
    ['two values', '0x0102', 'rlp: input contains more than one value'],
    ['a byte in the long form', '0x8101', 'rlp: non-canonical size information'],
    [
      'a length of 55 in the long form',
      `0xb837${'00'.repeat(55)}`,
      'rlp: non-canonical size information',
    ],
    [
      'a length with a leading zero',
      `0xb90038${'00'.repeat(56)}`,
      'rlp: non-canonical size information',
    ],
    ['a string cut short', '0x83aabb', 'rlp: value size exceeds available input length'],
    ['a list cut short', '0xc3aabb', 'rlp: value size exceeds available input length'],
    ['a length cut short', '0xb9ff', 'rlp: value size exceeds available input length'],
    [
      'a length of 2^64 - 1',
      '0xbfffffffffffffffff',
      'rlp: value size exceeds available input length',
    ],
    [
      'an element that is longer than its list',
      '0xc283aabb',
      'rlp: element is larger than containing list',
    ],
    [
      'deep lists',
      `0x${Array.from({ length: 30 }, (_, at) => (0xc0 + 29 - at).toString(16)).join('')}`,
      'rlp: lists are nested more than 16 deep',
    ],
  ]
  test.each(refused)('refuses %s', (_name, hex, message) => {
    expect(() => decodeRlp(hexToBytes(hex))).toThrow(new RlpError(message))
  })
  test('refuses a million nested lists before the stack overflows', () => {
    expect(() => decodeRlp(new Uint8Array(1_000_000).fill(0xc1))).toThrow(RlpError)
  })
  test('reads the numbers that it wrote, and refuses other forms', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: (1n << 256n) - 1n }), (value) => {
        expect(readUint(rlpUint(value), 32)).toBe(value)
        expect(encodeRlp(rlpUint(value))).toEqual(reference(minimal(value)))
      }),
    )
    expect(() => readUint(Uint8Array.of(0), 8, ' for x')).toThrow(
      'rlp: non-canonical integer (leading zero bytes) for uint64 for x',
    )
    expect(() => readUint(new Uint8Array(9).fill(1), 8)).toThrow(
      'rlp: input string too long for uint64',
    )
    expect(() => readUint([], 8)).toThrow('rlp: expected input string or byte')
    expect(() => readFixed(new Uint8Array(19), 20)).toThrow(
      'rlp: input string too short for [20]uint8',
    )
    expect(() => readList(new Uint8Array(0))).toThrow('rlp: expected input list')
    expect(() => rlpUint(-1n)).toThrow(RangeError)
  })
})

/** Decodes RLP; undefined: an RlpError refused the data. */
function decodedOrRefused(data: Uint8Array): RlpItem | undefined {
  try {
    return decodeRlp(data)
  } catch (error) {
    if (error instanceof RlpError) return undefined
    throw error
  }
}
