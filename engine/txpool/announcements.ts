/** Who hears of transactions that have become executable. */
import { executable, type Sender } from './sender.ts'
import type { PendingListener } from './types.ts'

export type Announcements = {
  /** Returns the way to stop. */
  listen(listener: PendingListener): () => void
  /** Tells of the sender's executable ones, of each once. */
  tell(sender: Sender): void
}

export function createAnnouncements(onNews: () => void): Announcements {
  const listeners = new Set<PendingListener>()
  return {
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    tell(sender) {
      for (const entry of executable(sender)) {
        if (entry.isAnnounced) continue
        entry.isAnnounced = true
        onNews()
        for (const listener of listeners) listener(entry.transaction.hash, entry.transaction)
      }
    },
  }
}
