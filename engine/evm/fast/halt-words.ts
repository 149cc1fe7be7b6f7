/** Converts the module's halt numbers (asm/interpreter/machine.ts) to go-ethereum's words. */
import { invalidOpcode, NONCE_OVERFLOW, stackFault } from '../halt-reason.ts'

export const HALT_NONE = 0
export const HALT_REVERT = 16
const HALT_PRECOMPILE = 15

/** Bytes (EIP-170, EIP-3860). */
const MAX_CODE = 24_576
const MAX_INIT_CODE = 49_152

const WORDS: Readonly<Record<number, string>> = {
  2: 'out of gas',
  4: 'invalid jump destination',
  5: 'gas uint64 overflow',
  6: 'return data out of bounds',
  7: 'write protection',
  8: 'contract creation code storage out of gas',
  10: 'invalid code: must not begin with 0xef',
  11: 'contract address collision',
  12: 'insufficient balance for transfer',
  13: 'max call depth exceeded',
  14: NONCE_OVERFLOW,
  16: 'execution reverted',
  17: 'out of gas: out of gas',
  18: 'out of gas: gas uint64 overflow',
  19: 'out of gas: not enough gas for reentrancy sentry',
  20: 'out of gas: write protection',
}

/** @param ofPrecompile error of the last precompiled contract that failed */
export function haltWords(
  halt: number,
  numbers: { readonly first: number; readonly second: number; readonly ofPrecompile: string },
): string {
  const { first, second, ofPrecompile } = numbers
  switch (halt) {
    case 1:
      return stackFault(first, second)!
    case 3:
      return invalidOpcode(first)
    case 9:
      return `max code size exceeded: code size ${first} limit ${MAX_CODE}`
    case HALT_PRECOMPILE:
      return ofPrecompile
    case 21:
      return `out of gas: max initcode size exceeded: code size ${long(first, second)} limit ${MAX_INIT_CODE}`
    default:
      return WORDS[halt]!
  }
}

/** Joins the two signed halves of a 64-bit number. */
const long = (low: number, high: number): bigint => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
