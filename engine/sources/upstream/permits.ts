/** Permits for messages to one upstream, and the timeout of a call. */
import { UpstreamError } from './error.ts'
import type { UpstreamLimits } from './limits.ts'

export type Clock = {
  /** Returns monotonic milliseconds. */
  readonly now: () => number
  /** Runs a function once after `ms`; returns a function that cancels it. */
  readonly after: (ms: number, run: () => void) => () => void
}

export interface Permits {
  /**
   * Waits for a permit and returns its release.
   * @throws {UpstreamError} 'limited' when too many calls wait; the reason of `signal`
   */
  take(signal: AbortSignal): Promise<() => void>
}

/** Makes permits, with a queue for waiting calls. */
export function createPermits(
  {
    upstreamInFlight,
    upstreamWaiting,
  }: Pick<UpstreamLimits, 'upstreamInFlight' | 'upstreamWaiting'>,
  name: string,
): Permits {
  const line: (() => void)[] = []
  let taken = 0
  function give(): void {
    const next = line.shift()
    if (next === undefined) taken--
    else next()
  }
  function permit(): () => void {
    let isTaken = true
    return () => {
      if (isTaken) give()
      isTaken = false
    }
  }
  return {
    async take(signal) {
      if (taken < upstreamInFlight) {
        taken++
        return permit()
      }
      if (line.length >= upstreamWaiting)
        throw new UpstreamError('limited', `too many calls wait for ${name}`)
      const mine = Promise.withResolvers<void>()
      line.push(mine.resolve)
      try {
        await until(signal, mine.promise)
      } catch (error) {
        const at = line.indexOf(mine.resolve)
        // The permit came at the moment of the abort.
        if (at < 0) give()
        else line.splice(at, 1)
        throw error
      }
      return permit()
    },
  }
}

export interface End {
  readonly signal: AbortSignal
  sleep(ms: number): Promise<void>
  clear(): void
}

/** Makes the end of a call: its timeout, or the caller's abort. */
export function openEnd(
  clock: Clock,
  {
    ms,
    name,
    signal,
  }: { readonly ms: number; readonly name: string; readonly signal?: AbortSignal | undefined },
): End {
  const own = new AbortController()
  const cancel = clock.after(ms, () =>
    own.abort(
      new UpstreamError(
        'silent',
        `no answer from ${name} within ${ms} ms: look at that node and the network between, or allow it more with --upstream-call-ms`,
      ),
    ),
  )
  const gone = () => own.abort(new UpstreamError('broken', `the call of ${name} was given up`))
  if (signal?.aborted === true) gone()
  signal?.addEventListener('abort', gone)
  return {
    signal: own.signal,
    async sleep(forMs) {
      const slept = Promise.withResolvers<void>()
      const wake = clock.after(forMs, slept.resolve)
      try {
        await until(own.signal, slept.promise)
      } finally {
        wake()
      }
    },
    clear() {
      cancel()
      signal?.removeEventListener('abort', gone)
    },
  }
}

/** Settles like the promise, or rejects with the signal's reason at an abort. */
export async function until<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  if (signal.aborted) {
    // The outcome is not used any more.
    promise.catch(() => {})
    throw signal.reason
  }
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
