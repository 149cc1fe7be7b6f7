/** Who hears of transactions that have become executable. */
import type { SignedTransaction } from '../primitives/transaction.ts'
import { executable, type Sender } from './sender.ts'
import type { Entry, PendingListener, Submitted, Unlisted, Unproven } from './types.ts'

type Outcome = Submitted | Unlisted | Unproven

export type Announcements = {
  /** Returns the way to stop. */
  listen(listener: PendingListener): () => void
  /** Tells of the sender's executable ones, of each once. */
  tell(sender: Sender): void
  /**
   * Tells of one that never waits here, once: a flashblock with it came before it did, so that its nonce is used.
   * @param kept what the txpool has of it
   */
  tellLate(transaction: SignedTransaction, kept: Entry | undefined, outcome: Outcome): void
}

export function createAnnouncements(onNews: () => void): Announcements {
  const listeners = new Set<PendingListener>()
  return {
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    tellLate(transaction, kept, outcome) {
      if (!isUsed(outcome) || kept?.isUntold === false) return
      if (kept !== undefined) kept.isUntold = false
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

const isUsed = (outcome: Outcome): boolean =>
  'error' in outcome && outcome.error.message.startsWith('nonce too low')
