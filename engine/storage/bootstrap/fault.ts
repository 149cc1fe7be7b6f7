/** The copy cannot go on: what is wrong, and what to do. */
export class BootstrapError extends Error {
  override name = 'BootstrapError'
}
