/**
 * How long somebody is waited for, by the time in which the process ran: a timer of the system rings for the time in which it stood still as
 * well, and before anything that came meanwhile is read (ADR 57).
 */

/** Monotonic milliseconds in which the process ran. */
export type Now = () => number

/** Less than that is over: timers are not more exact. */
const LEAST_MS = 1
/** A timer rings at once for what is longer. */
const MOST_MS = 2 ** 31 - 1

/** Rings once, after `ms`. @returns ends it */
export function ringAfter(ms: number, ring: () => void, now: Now): () => void {
  const due = now() + ms
  let timer = wait(ms)
  function wait(left: number): NodeJS.Timeout {
    return setTimeout(look, Math.min(Math.ceil(left), MOST_MS))
  }
  function look(): void {
    const left = due - now()
    if (left < LEAST_MS) ring()
    else timer = wait(left)
  }
  return () => clearTimeout(timer)
}

/** A signal that is aborted after `ms`; `end` it where nobody waits any more. */
export function abortAfter(
  ms: number,
  now: Now,
): { readonly signal: AbortSignal; readonly end: () => void } {
  const controller = new AbortController()
  const end = ringAfter(ms, () => controller.abort(), now)
  return { signal: controller.signal, end }
}
