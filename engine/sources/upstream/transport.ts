/** What goes to an upstream and what comes back, over whatever way. */
import type { UpstreamError } from './error.ts'

/** Takes text to an upstream and its answer back. HTTP or WebSocket. */
export interface Transport {
  /**
   * One message, a call or a batch, whose answer carries `ids`: as it was parsed. At most as long as it was made for.
   * @throws {UpstreamError} 'limited', 'unreachable', 'broken'; anything once `signal` is aborted
   */
  exchange(message: string, ids: readonly number[], signal: AbortSignal): Promise<unknown>
  /** Messages that answer nothing, where the connection lets the other side speak; undefined: it does not (HTTP). */
  readonly pushes:
    | { onMessage(listener: (message: unknown) => void): void; onClose(listener: () => void): void }
    | undefined
  close(): void
}

export type Call = { readonly method: string; readonly params: readonly unknown[] }
export type Settled = { readonly result: unknown } | { readonly error: UpstreamError }
export type CallOptions = {
  /** Instead of the limit of every call. */
  readonly withinMs?: number
  /** Somebody else can be asked: that this upstream wants fewer calls is told at once ('limited'); nothing waits until it takes some. */
  readonly hasOthers?: boolean
  readonly signal?: AbortSignal
}
