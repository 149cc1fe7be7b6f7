/**
 * JSON-RPC 2.0 messages to an upstream and back, over any transport: numbered, sent when a permit
 * and the upstream's rate limit allow, with a timeout.
 */
import { isFault, type RpcFault, UpstreamError } from './error.ts'
import type { UpstreamLimits } from './limits.ts'
import { type Clock, createPermits, openEnd, until } from './permits.ts'

/** Sends text to an upstream and returns its response, by HTTP or WebSocket. */
export interface Transport {
  /**
   * Exchanges one message, a call or a batch, and returns the parsed response with `ids`. The
   * transport limits its length.
   * @throws {UpstreamError} 'limited', 'unreachable', 'broken'; any reason once `signal` is aborted
   */
  exchange(message: string, ids: readonly number[], signal: AbortSignal): Promise<unknown>
  /** Pushed messages; undefined: the transport has none (HTTP). */
  readonly pushes:
    | { onMessage(listener: (message: unknown) => void): void; onClose(listener: () => void): void }
    | undefined
  close(): void
}

export type Call = { readonly method: string; readonly params: readonly unknown[] }
export type Settled = { readonly result: unknown } | { readonly error: UpstreamError }
export type CallOptions = {
  /** Timeout in place of the general one. */
  readonly withinMs?: number
  /**
   * Another upstream can be asked, so a rate limit is reported at once ('limited') instead of
   * waited for.
   */
  readonly hasOthers?: boolean
  readonly signal?: AbortSignal
}

export type ClientOptions = {
  readonly name: string
  readonly transport: Transport
  readonly limits: Pick<
    UpstreamLimits,
    'upstreamCallMs' | 'upstreamInFlight' | 'upstreamWaiting' | 'upstreamBatch'
  >
  readonly clock: Clock
  /** Whether the error of a call means too many calls. */
  readonly isLimited: (fault: RpcFault) => boolean
  /** Called with the number of calls in each message that leaves. */
  readonly onSent?: (calls: number) => void
}

/** `single`: one response for all calls of a batch. */
export type BatchResponses = readonly Settled[] | { readonly single: Settled }

/** Default delay of one second, because public services count calls by the second. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000

/**
 * Makes the function that sends calls as one message. The function throws an UpstreamError when no
 * call was answered.
 */
export function createSender(
  options: ClientOptions,
): (calls: readonly Call[], options: CallOptions) => Promise<BatchResponses> {
  const { name, limits, clock } = options
  const permits = createPermits(limits, name)
  const exchange = createExchange(options)
  /** Time before which no call leaves, because the upstream wants fewer calls. */
  let quietUntilMs = 0

  /**
   * Sends one message. A requested delay is followed by another try while time is left, unless
   * another upstream can be asked.
   */
  async function send(
    calls: readonly Call[],
    { withinMs, hasOthers = false, signal }: CallOptions,
  ): Promise<BatchResponses> {
    const end = openEnd(clock, { ms: withinMs ?? limits.upstreamCallMs, name, signal })
    const deadline = clock.now() + (withinMs ?? limits.upstreamCallMs)
    try {
      for (;;) {
        const quietMs = quietUntilMs - clock.now()
        if (quietUntilMs >= deadline || (hasOthers && quietMs > 0)) throw tooMany(quietMs)
        if (quietMs > 0) await end.sleep(quietMs)
        const giveBack = await permits.take(end.signal)
        try {
          return await until(end.signal, exchange(calls, end.signal))
        } catch (error) {
          if (!(error instanceof UpstreamError) || error.kind !== 'limited') throw error
          hush(error.retryAfterMs)
        } finally {
          giveBack()
        }
      }
    } catch (error) {
      throw end.signal.aborted ? end.signal.reason : error
    } finally {
      end.clear()
    }
  }

  function hush(retryAfterMs: number): void {
    const ms = Math.min(MAX_RETRY_MS, retryAfterMs > 0 ? retryAfterMs : RETRY_MS)
    quietUntilMs = Math.max(quietUntilMs, clock.now() + ms)
  }
  const tooMany = (retryAfterMs: number) =>
    new UpstreamError('limited', `${name} wants fewer requests`, { retryAfterMs })

  return send
}

/** Makes the exchange of one message. */
function createExchange({ name, transport, isLimited, onSent }: ClientOptions) {
  let ids = 0

  function settled(response: unknown): Settled {
    if (typeof response === 'object' && response !== null) {
      const { result, error } = response as { readonly result?: unknown; readonly error?: unknown }
      if (isFault(error)) return { error: refused(error) }
      if (result !== undefined) return { result }
    }
    const message = `${name} answered with neither a result nor an error`
    return { error: new UpstreamError('broken', message) }
  }

  function refused({ code, message, data }: RpcFault): UpstreamError {
    const fault = { code, message, ...(data === undefined ? {} : { data }) }
    const kind = isLimited(fault) ? 'limited' : 'refused'
    return new UpstreamError(kind, `${name}: ${message}`, { fault })
  }

  return async (calls: readonly Call[], signal: AbortSignal): Promise<BatchResponses> => {
    const own = calls.map(() => ++ids)
    const wire = calls.map((one, at) => ({ jsonrpc: '2.0', id: own[at], ...one }))
    onSent?.(calls.length)
    const text = JSON.stringify(wire.length === 1 ? wire[0] : wire)
    const response = await transport.exchange(text, own, signal)
    if (Array.isArray(response) && calls.length > 1) {
      const found = new Map(response.map((one) => [idOf(one), one]))
      return own.map((id) => settled(found.get(id)))
    }
    const single = settled(Array.isArray(response) ? response[0] : response)
    // No call was executed, as if the transport had reported the limit.
    if ('error' in single && single.error.kind === 'limited') throw single.error
    return calls.length === 1 ? [single] : { single }
  }
}

const idOf = (response: unknown): unknown =>
  typeof response === 'object' && response !== null
    ? (response as { readonly id?: unknown }).id
    : undefined
