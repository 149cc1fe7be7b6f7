/** Calls as messages of JSON-RPC 2.0: numbered, sent when there is a place and the upstream wants any, answered in time. */
import { isFault, type RpcFault, UpstreamError } from './error.ts'
import type { UpstreamLimits } from './limits.ts'
import { type Clock, createPlaces, openEnd, until } from './places.ts'
import type { Call, CallOptions, Settled, Transport } from './transport.ts'

export type ClientOptions = {
  readonly name: string
  readonly transport: Transport
  readonly limits: Pick<
    UpstreamLimits,
    'upstreamCallMs' | 'upstreamInFlight' | 'upstreamWaiting' | 'upstreamBatch'
  >
  readonly clock: Clock
  /** Whether the error of a call says that there were too many. */
  readonly isLimited: (fault: RpcFault) => boolean
  /** Calls that leave, those of a batch each. */
  readonly onSent?: (calls: number) => void
}

/** `whole`: one answer for all calls of a batch. */
export type Answers = readonly Settled[] | { readonly whole: Settled }

/** Where nobody says how long: a second, as the limits of public services count. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000

/** @returns sends calls as one message. It throws {UpstreamError} when none of them was answered. */
export function createSender(
  options: ClientOptions,
): (calls: readonly Call[], options: CallOptions) => Promise<Answers> {
  const { name, limits, clock } = options
  const places = createPlaces(limits, name)
  const exchange = createExchange(options)
  /** It wants fewer calls: nothing leaves before. */
  let quietUntilMs = 0

  /** One message, and again after a rest that it asked for, as long as there is time and nobody else to ask. */
  async function send(
    calls: readonly Call[],
    { withinMs, hasOthers = false, signal }: CallOptions,
  ): Promise<Answers> {
    const end = openEnd(clock, { ms: withinMs ?? limits.upstreamCallMs, name, signal })
    const deadline = clock.now() + (withinMs ?? limits.upstreamCallMs)
    try {
      for (;;) {
        const quietMs = quietUntilMs - clock.now()
        if (quietUntilMs >= deadline || (hasOthers && quietMs > 0)) throw tooMany(quietMs)
        if (quietMs > 0) await end.sleep(quietMs)
        const giveBack = await places.take(end.signal)
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

/** One message there and back. */
function createExchange({ name, transport, isLimited, onSent }: ClientOptions) {
  let ids = 0

  function settled(answer: unknown): Settled {
    if (typeof answer === 'object' && answer !== null) {
      const { result, error } = answer as { readonly result?: unknown; readonly error?: unknown }
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

  return async (calls: readonly Call[], signal: AbortSignal): Promise<Answers> => {
    const own = calls.map(() => ++ids)
    const wire = calls.map((one, at) => ({ jsonrpc: '2.0', id: own[at], ...one }))
    onSent?.(calls.length)
    const text = JSON.stringify(wire.length === 1 ? wire[0] : wire)
    const answer = await transport.exchange(text, own, signal)
    if (Array.isArray(answer) && calls.length > 1) {
      const found = new Map(answer.map((one) => [idOf(one), one]))
      return own.map((id) => settled(found.get(id)))
    }
    const whole = settled(Array.isArray(answer) ? answer[0] : answer)
    // Nothing of it was done: the same as if the transport had said so.
    if ('error' in whole && whole.error.kind === 'limited') throw whole.error
    return calls.length === 1 ? [whole] : { whole }
  }
}

const idOf = (answer: unknown): unknown =>
  typeof answer === 'object' && answer !== null
    ? (answer as { readonly id?: unknown }).id
    : undefined
