/** The contracts of Ethereum's first fork: ECRECOVER, SHA256, RIPEMD160, IDENTITY. */
import { hash } from 'node:crypto'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { recoverAddress } from '../../primitives/signature.ts'
import { bytesToBigint } from '../../primitives/words.ts'
import { type Contract, dataAt, fixed } from './contract.ts'

/** An invalid signature gives empty output and is not a fault. */
export const ecrecover: Contract = {
  gas: fixed(3000n),
  run(input) {
    const [v, r, s] = [32, 64, 96].map((from) => bytesToBigint(dataAt(input, from, 32)))
    if (v !== 27n && v !== 28n) return NO_BYTES
    const address = recoverAddress(dataAt(input, 0, 32), r!, s!, v === 27n ? 0 : 1)
    return address === undefined ? NO_BYTES : paddedTo32(address)
  },
}

export const sha256: Contract = {
  gas: byWords(60, 12),
  run: (input) => hash('sha256', input, 'buffer'),
}

export const ripemd160: Contract = {
  gas: byWords(600, 120),
  run: (input) => paddedTo32(hash('ripemd160', input, 'buffer')),
}

export const identity: Contract = { gas: byWords(15, 3), run: (input) => input.slice() }

function byWords(base: number, word: number) {
  return (input: Bytes): bigint => BigInt(base + word * Math.ceil(input.length / 32))
}

function paddedTo32(bytes: Bytes): Bytes {
  const word = new Uint8Array(32)
  word.set(bytes, 32 - bytes.length)
  return word
}
