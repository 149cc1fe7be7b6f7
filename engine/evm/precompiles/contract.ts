/** The interface of a precompiled contract, and helpers that the contracts share. */
import type { Bytes } from '../../primitives/bytes.ts'

/** Checks the deadline; an error that it throws ends the run. */
export type Poll = () => void

export type Contract = {
  /** Gas of a call, also for input that `run` refuses. */
  readonly gas: (input: Bytes) => bigint
  /**
   * @param poll called about every millisecond if the work can be divided
   * @throws {Fault} if the call fails
   */
  readonly run: (input: Bytes, poll: Poll) => Bytes
  /** Text of the fault for input that exceeds an OP fork's limit (op-geth). */
  readonly tooLong?: string
}

/**
 * The call fails and uses up all gas. The message is go-ethereum's (core/vm/contracts.go and its
 * libraries).
 */
export class Fault extends Error {
  override name = 'Fault'
}

/** Reads a range of the input, with zeros beyond its end. */
export function dataAt(input: Bytes, from: number, length: number): Bytes {
  const end = from + length
  if (end <= input.length) return input.subarray(from, end)
  const data = new Uint8Array(length)
  if (from < input.length) data.set(input.subarray(from))
  return data
}

export const fixed = (gas: bigint) => (): bigint => gas

/** Encodes a boolean as a 32-byte word. */
export function truth(isTrue: boolean): Bytes {
  const word = new Uint8Array(32)
  if (isTrue) word[31] = 1
  return word
}

/** Wraps a function so that its value is computed once, at the first call. */
export function lazily<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}
