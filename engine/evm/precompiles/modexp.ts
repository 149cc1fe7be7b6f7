/** MODEXP: the lengths of base, exponent and modulus in a word each, then the three numbers. */
import type { EvmContracts } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bigintToBytes, bytesToBigint } from '../../primitives/words.ts'
import { type Contract, dataAt, Fault } from './contract.ts'
import { power } from './power.ts'

type Pricing = Exclude<EvmContracts['modexp'], 'none'>

export function modexp(pricing: Pricing): Contract {
  return {
    gas: (input) => PRICES[pricing](workOf(input, pricing === 'bounded' ? 16n : 8n)),
    run(input, poll) {
      const { base, exponent, modulus } = lengthsOf(input)
      if (pricing === 'bounded' && longestOf([base, exponent, modulus]) > MAX_BYTES)
        throw new Fault('one or more of base/exponent/modulus length exceeded 1024 bytes')
      // This check precedes the exponent, whose length can be huge: without base and modulus it
      // costs nothing.
      if (modulus === 0n) return NO_BYTES
      // Lengths that a caller can pay for fit in a number.
      const [baseBytes, exponentBytes, bytes] = [base, exponent, modulus].map(Number)
      const divisor = bytesToBigint(dataAt(input, 96 + baseBytes! + exponentBytes!, bytes!))
      if (divisor === 0n) return new Uint8Array(bytes!)
      const result = power(
        bytesToBigint(dataAt(input, 96, baseBytes!)),
        dataAt(input, 96 + baseBytes!, exponentBytes!),
        divisor,
        poll,
      )
      return bigintToBytes(result, bytes!)
    },
  }
}

/** Limit of EIP-7823. */
const MAX_BYTES = 1024n

function lengthsOf(input: Bytes) {
  const at = (from: number) => bytesToBigint(dataAt(input, from, 32))
  return { base: at(0), exponent: at(32), modulus: at(64) }
}

type Work = {
  /** Bytes of the longer of base and modulus. */
  readonly longest: bigint
  /**
   * Iterations, at least 1. The exponent's first 32 bytes count with the bits below the highest
   * one. Each further byte counts with a constant factor.
   */
  readonly iterations: bigint
}

function workOf(input: Bytes, perByte: bigint): Work {
  const { base, exponent, modulus } = lengthsOf(input)
  const headAt = 96n + base
  const headBytes = exponent < 32n ? Number(exponent) : 32
  const head = headAt < input.length ? bytesToBigint(dataAt(input, Number(headAt), headBytes)) : 0n
  const bits = head === 0n ? 0 : head.toString(2).length - 1
  const iterations = BigInt(bits) + (exponent > 32n ? perByte * (exponent - 32n) : 0n)
  return { longest: longestOf([base, modulus]), iterations: iterations === 0n ? 1n : iterations }
}

const PRICES: Readonly<Record<Pricing, (work: Work) => bigint>> = {
  bytes: ({ longest, iterations }) => (complexityOfBytes(longest) * iterations) / 20n,
  words({ longest, iterations }) {
    const words = (longest + 7n) / 8n
    return withFloor(200n, (words * words * iterations) / 3n)
  },
  bounded({ longest, iterations }) {
    const words = (longest + 7n) / 8n
    return withFloor(500n, (longest > 32n ? 2n * words * words : 16n) * iterations)
  },
}

function complexityOfBytes(x: bigint): bigint {
  if (x <= 64n) return x * x
  return x <= 1024n ? (x * x) / 4n + 96n * x - 3072n : (x * x) / 16n + 480n * x - 199_680n
}

const withFloor = (min: bigint, gas: bigint): bigint => (gas < min ? min : gas)
const longestOf = (lengths: readonly bigint[]): bigint =>
  lengths.reduce((longest, length) => (length > longest ? length : longest))
