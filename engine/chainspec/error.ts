/** A chain cannot be made from what was given: names the key or the file, what it holds, what was expected. */
import { Refusal } from '../primitives/json-fields.ts'

export class ChainError extends Error {
  override name = 'ChainError'
}

/** @throws {ChainError} for what a reader of JSON refuses */
export function readingChain<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof Refusal ? new ChainError(error.message) : error
  }
}
