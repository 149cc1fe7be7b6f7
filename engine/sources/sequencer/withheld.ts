/** What no feed gets, although it was made: gaps and silence on demand. */
import type { FeedMessage } from '../../flashblocks/types.ts'

export class Withheld {
  #gaps = 0
  #untilMs = Number.NEGATIVE_INFINITY

  /** Of the next flashblocks so many, and everything for so long. */
  add({ gaps = 0, ms = 0 }: { readonly gaps?: number; readonly ms?: number }, nowMs: number): void {
    this.#gaps += gaps
    if (ms > 0) this.#untilMs = nowMs + ms
  }

  /** Counts what it takes. */
  takes({ type }: FeedMessage, nowMs: number): boolean {
    if (nowMs < this.#untilMs) return true
    if (type !== 'flashblock' || this.#gaps === 0) return false
    this.#gaps--
    return true
  }
}
