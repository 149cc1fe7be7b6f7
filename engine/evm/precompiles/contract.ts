/** What a precompiled contract is to the table, and what they share. */
import type { Bytes } from '../../primitives/bytes.ts'

/** Looks at the deadline; what it throws ends the run. */
export type Poll = () => void

export type Contract = {
  /** What a call costs, also of input that `run` refuses. */
  readonly gas: (input: Bytes) => bigint
  /**
   * @param poll called about every millisecond where the work is made of pieces
   * @throws {Fault} the call fails
   */
  readonly run: (input: Bytes, poll: Poll) => Bytes
  /** What an OP fork's limit of the input says (op-geth). */
  readonly tooLong?: string
}

/** The call fails and takes all gas. The message is go-ethereum's (core/vm/contracts.go, and the libraries behind it). */
export class Fault extends Error {
  override name = 'Fault'
}

/** Of the input from there on, zeros behind its end. */
export function dataAt(input: Bytes, from: number, length: number): Bytes {
  const end = from + length
  if (end <= input.length) return input.subarray(from, end)
  const data = new Uint8Array(length)
  if (from < input.length) data.set(input.subarray(from))
  return data
}

export const fixed = (gas: bigint) => (): bigint => gas

/** A word that says yes or no. */
export function truth(isTrue: boolean): Bytes {
  const word = new Uint8Array(32)
  if (isTrue) word[31] = 1
  return word
}

/** A value that is made when it is first asked for. */
export function lazily<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}
