/** A thread that the node can do without for a while: whichever has failed is replaced, after a time that grows as long as they do not last. */
import type { Thread } from './thread.ts'

export type ReplaceLimits = {
  /** Milliseconds from a failure to the next thread: doubled up to the most, by which one has to last for the least to hold again. */
  readonly leastReplaceMs: number
  readonly mostReplaceMs: number
}

/** @param start `onFailed`: it has ended, or will by itself */
export function keepThread<To>(
  { leastReplaceMs, mostReplaceMs }: ReplaceLimits,
  start: (onFailed: () => void) => Thread<To>,
): Thread<To> {
  let waitMs = leastReplaceMs
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  let thread = begin()

  function begin(): Thread<To> {
    const startedAt = performance.now()
    return start(() => {
      if (isStopped) return
      if (performance.now() - startedAt >= mostReplaceMs) waitMs = leastReplaceMs
      timer = setTimeout(() => {
        thread = begin()
      }, waitMs)
      waitMs = Math.min(mostReplaceMs, 2 * waitMs)
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
