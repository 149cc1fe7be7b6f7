/** Answers that their clients have not taken yet: each may wait for so long, all together for so many bytes. */

export interface Unsent {
  /** Call what it gives when the last byte is with the system, or the connection has ended. `cut` ends the connection. */
  add(bytes: number, cut: () => void): () => void
  readonly stats: { readonly answers: number; readonly bytes: number; readonly cut: number }
}

type Answer = { readonly bytes: number; readonly until: number; readonly cut: () => void }

const SWEEP_MS = 1_000

export type UnsentLimits = { readonly unsentBytes: number; readonly unsentMs: number }

/** @param now monotonic milliseconds */
export function createUnsent(limits: UnsentLimits, now: () => number): Unsent {
  /** Oldest first. */
  const answers = new Set<Answer>()
  let bytes = 0
  let cuts = 0
  let sweeper: NodeJS.Timeout | undefined

  function remove(answer: Answer): void {
    if (!answers.delete(answer)) return
    bytes -= answer.bytes
    if (answers.size > 0) return
    clearInterval(sweeper)
    sweeper = undefined
  }
  function cut(answer: Answer): void {
    remove(answer)
    cuts++
    answer.cut()
  }
  function sweep(): void {
    const at = now()
    for (const answer of answers) {
      if (answer.until > at) return
      cut(answer)
    }
  }

  return {
    add(size, end) {
      const answer = { bytes: size, until: now() + limits.unsentMs, cut: end }
      answers.add(answer)
      bytes += size
      sweeper ??= setInterval(sweep, SWEEP_MS).unref()
      // Whoever has had the longest time goes first; the newest has had none.
      for (const oldest of answers) {
        if (bytes <= limits.unsentBytes || oldest === answer) break
        cut(oldest)
      }
      return () => remove(answer)
    },
    get stats() {
      return { answers: answers.size, bytes, cut: cuts }
    },
  }
}
