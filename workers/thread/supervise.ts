/**
 * A thread that the node can miss for a while. A failed thread is replaced after a delay, which
 * grows while threads fail early.
 */
import type { Thread } from './thread.ts'

export type ReplaceLimits = {
  /**
   * Delay from a failure to the next thread, in milliseconds. It doubles up to the maximum. A
   * thread that ran for the maximum resets it.
   */
  readonly minReplaceMs: number
  readonly maxReplaceMs: number
}

/**
 * Runs a thread, and replaces it when it fails.
 * @param start starts a thread; `onFailed` reports that it has ended, or will end by itself
 */
export function superviseThread<To>(
  { minReplaceMs, maxReplaceMs }: ReplaceLimits,
  start: (onFailed: () => void) => Thread<To>,
): Thread<To> {
  let waitMs = minReplaceMs
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  let thread = spawn()

  function spawn(): Thread<To> {
    const startedAt = performance.now()
    return start(() => {
      if (isStopped) return
      if (performance.now() - startedAt >= maxReplaceMs) waitMs = minReplaceMs
      timer = setTimeout(() => {
        thread = spawn()
      }, waitMs)
      waitMs = Math.min(maxReplaceMs, 2 * waitMs)
    })
  }

  return {
    post: (message, transfer) => thread.post(message, transfer),
    async stop(message, withinMs) {
      isStopped = true
      clearTimeout(timer)
      await thread.stop(message, withinMs)
    },
  }
}
