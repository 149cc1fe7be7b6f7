/** A chain cannot be made from what was given: names the key or the file, what it holds, what was expected. */
export class ChainError extends Error {
  override name = 'ChainError'
}
