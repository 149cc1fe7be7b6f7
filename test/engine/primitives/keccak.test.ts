/** Keccak-256 is tested for lengths around its blocks and its buffer. */
import { keccak_256 } from '@noble/hashes/sha3.js'
import { expect, test } from 'vitest'
import { keccak256 } from '../../../engine/primitives/keccak.ts'

test.each([0, 1, 32, 135, 136, 137, 271, 272, 16_383, 16_384, 16_385, 32_768, 40_001])(
  'Keccak-256 of %i bytes is right, whatever was hashed before',
  (length) => {
    const data = Uint8Array.from({ length }, (_, at) => (at * 31 + length) & 0xff)
    keccak256(new Uint8Array(16_384).fill(0xff))
    const hash = keccak256(data)
    expect(hash).toEqual(keccak_256(data))
    keccak256(new Uint8Array(0))
    expect(hash).toEqual(keccak_256(data))
  },
)
