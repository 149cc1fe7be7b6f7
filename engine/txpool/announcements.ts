/** Who hears of transactions that have become executable. */
import type { SignedTransaction } from '../primitives/transaction.ts'
import { executable, type Sender } from './sender.ts'
import type { PendingListener } from './types.ts'

export type Announcements = {
  /** Returns the way to stop. */
  listen(listener: PendingListener): () => void
  /** Tells of the sender's executable ones, of each once. */
  tell(sender: Sender): void
  /** Tells of one that never waited here: a flashblock with it came before it did. */
  tellLate(transaction: SignedTransaction): void
}

export function createAnnouncements(onNews: () => void): Announcements {
  const listeners = new Set<PendingListener>()
  return {
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    tellLate(transaction) {
      for (const listener of listeners) listener(transaction.hash, transaction)
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
