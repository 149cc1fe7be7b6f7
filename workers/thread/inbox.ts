/** Queue for messages that may arrive before their receiver is ready. */
export interface Inbox<T> {
  push(message: T): void
  /** Passes the waiting messages, and then all later ones, to the receiver. */
  open(receiver: (message: T) => void): void
}

/** The waiting messages are not bounded, because they only collect during a start. */
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
