/**
 * Timeouts measured in the time that the process ran. A system timer counts suspended time too, and
 * fires before the events that arrived meanwhile are read (ADR 57).
 */

/** Monotonic milliseconds in which the process ran. */
export type Now = () => number

/** Remaining time below this counts as over, because timers are not more exact. */
const MIN_MS = 1
/** Longest delay of a system timer. A longer delay would fire at once. */
const MAX_MS = 2 ** 31 - 1

/**
 * Calls `ring` once, after `ms`.
 * @returns cancels the timer
 */
export function ringAfter(ms: number, ring: () => void, now: Now): () => void {
  const due = now() + ms
  let timer = wait(ms)
  function wait(left: number): NodeJS.Timeout {
    return setTimeout(check, Math.min(Math.ceil(left), MAX_MS))
  }
  function check(): void {
    const left = due - now()
    if (left < MIN_MS) ring()
    else timer = wait(left)
  }
  return () => clearTimeout(timer)
}

/** Returns a signal that aborts after `ms`. Call `end` when no code waits for it any more. */
export function abortAfter(
  ms: number,
  now: Now,
): { readonly signal: AbortSignal; readonly end: () => void } {
  const controller = new AbortController()
  const end = ringAfter(ms, () => controller.abort(), now)
  return { signal: controller.signal, end }
}
