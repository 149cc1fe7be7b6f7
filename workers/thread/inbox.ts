/** Messages that may come before anybody is there to take them. */
export interface Inbox<T> {
  push(message: T): void
  /** From now on to this receiver, what waits first. */
  open(receiver: (message: T) => void): void
}

/** What waits is not bounded: it is for the moment of a start. */
export function createInbox<T>(): Inbox<T> {
  const waiting: T[] = []
  let receiver: ((message: T) => void) | undefined
  return {
    push(message) {
      if (receiver === undefined) waiting.push(message)
      else receiver(message)
    },
    open(taker) {
      receiver = taker
      for (const message of waiting.splice(0)) taker(message)
    },
  }
}
