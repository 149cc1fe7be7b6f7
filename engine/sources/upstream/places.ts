/** What waits and how long: places for messages at one upstream, and the end of a call's time. */
import { UpstreamError } from './error.ts'
import type { UpstreamLimits } from './limits.ts'

export type Clock = {
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Runs once, later; gives what takes it back. */
  readonly after: (ms: number, run: () => void) => () => void
}

export interface Places {
  /** Resolves with what gives the place back. @throws {UpstreamError} 'limited': too many wait already; the reason of `signal` */
  take(signal: AbortSignal): Promise<() => void>
}

/** So many at a time, the rest in line. */
export function createPlaces(
  {
    upstreamInFlight,
    upstreamWaiting,
  }: Pick<UpstreamLimits, 'upstreamInFlight' | 'upstreamWaiting'>,
  name: string,
): Places {
  const line: (() => void)[] = []
  let taken = 0
  function give(): void {
    const next = line.shift()
    if (next === undefined) taken--
    else next()
  }
  function place(): () => void {
    let isHeld = true
    return () => {
      if (isHeld) give()
      isHeld = false
    }
  }
  return {
    async take(signal) {
      if (taken < upstreamInFlight) {
        taken++
        return place()
      }
      if (line.length >= upstreamWaiting)
        throw new UpstreamError('limited', `too many calls wait for ${name}`)
      const mine = Promise.withResolvers<void>()
      line.push(mine.resolve)
      try {
        await until(signal, mine.promise)
      } catch (error) {
        const at = line.indexOf(mine.resolve)
        // The place came in the moment of the end.
        if (at < 0) give()
        else line.splice(at, 1)
        throw error
      }
      return place()
    },
  }
}

export interface End {
  readonly signal: AbortSignal
  sleep(ms: number): Promise<void>
  clear(): void
}

/** The end of a call: its time is over, or whoever asked is gone. */
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

/** As the promise does, or with the signal's reason as soon as it is aborted. */
export async function until<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  if (signal.aborted) {
    // Nobody looks at how it ends.
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
