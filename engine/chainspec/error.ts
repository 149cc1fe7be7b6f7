/**
 * A chain cannot be made from its input. The message names the key or the file, the value and the
 * expectation.
 */
import { Refusal } from '../primitives/json-fields.ts'

export class ChainError extends Error {
  override name = 'ChainError'
}

/**
 * Runs a reader of JSON.
 * @throws {ChainError} for values that the reader refuses
 */
export function readingChain<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof Refusal ? new ChainError(error.message) : error
  }
}
