/** Responses that clients have not read, bounded in time for each and in bytes for all. */

export interface Unsent {
  /**
   * Adds a response.
   * @param cut ends the connection
   * @returns must be called when the system has taken the last byte, or the connection has ended
   */
  add(bytes: number, cut: () => void): () => void
  readonly stats: { readonly responses: number; readonly bytes: number; readonly cut: number }
}

type UnsentResponse = { readonly bytes: number; readonly until: number; readonly cut: () => void }

const SWEEP_MS = 1_000

export type UnsentLimits = { readonly unsentBytes: number; readonly unsentMs: number }

/** @param now monotonic milliseconds */
export function createUnsent(limits: UnsentLimits, now: () => number): Unsent {
  /** Responses, oldest first. */
  const responses = new Set<UnsentResponse>()
  let bytes = 0
  let cuts = 0
  let sweeper: NodeJS.Timeout | undefined

  function remove(response: UnsentResponse): void {
    if (!responses.delete(response)) return
    bytes -= response.bytes
    if (responses.size > 0) return
    clearInterval(sweeper)
    sweeper = undefined
  }
  function cut(response: UnsentResponse): void {
    remove(response)
    cuts++
    response.cut()
  }
  function sweep(): void {
    const at = now()
    for (const response of responses) {
      if (response.until > at) return
      cut(response)
    }
  }

  return {
    add(size, end) {
      const response = { bytes: size, until: now() + limits.unsentMs, cut: end }
      responses.add(response)
      bytes += size
      sweeper ??= setInterval(sweep, SWEEP_MS).unref()
      // The oldest response is cut first. The newest is never cut, because its client had no time
      // to read it.
      for (const oldest of responses) {
        if (bytes <= limits.unsentBytes || oldest === response) break
        cut(oldest)
      }
      return () => remove(response)
    },
    get stats() {
      return { responses: responses.size, bytes, cut: cuts }
    },
  }
}
