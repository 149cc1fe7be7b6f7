/** Whether a WebSocket is read: not as long as anything speaks against it. */

/**
 * messages: as many as may be are in flight, or wait; unread: answers are not taken; refusals: more than a client may have; charge: bytes
 * that are not paid yet; room: too much is being received; slow: it is about to be closed.
 */
export type Stop = 'messages' | 'unread' | 'refusals' | 'charge' | 'room' | 'slow'

export interface Reading {
  stop(why: Stop): void
  go(why: Stop): void
  readonly isStopped: boolean
  /** Milliseconds for which it was not read, in all. */
  stoppedMs(): number
}

export function createReading(
  socket: { pause(): void; resume(): void },
  now: () => number,
): Reading {
  const reasons = new Set<Stop>()
  let since = 0
  let sum = 0
  return {
    stop(why) {
      if (reasons.size === 0) {
        since = now()
        socket.pause()
      }
      reasons.add(why)
    },
    go(why) {
      if (!reasons.delete(why) || reasons.size > 0) return
      sum += now() - since
      socket.resume()
    },
    get isStopped() {
      return reasons.size > 0
    },
    stoppedMs: () => (reasons.size > 0 ? sum + now() - since : sum),
  }
}
