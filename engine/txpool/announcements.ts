/** Notifies listeners of transactions that have become executable. */
import type { SignedTransaction } from '../primitives/transaction.ts'
import { executable, type Sender } from './sender.ts'
import type { Entry, PendingListener, Submitted, Unlisted, Unproven } from './types.ts'

type Outcome = Submitted | Unlisted | Unproven

export type Announcements = {
  /** Adds a listener and returns the function that removes the listener. */
  listen(listener: PendingListener): () => void
  announce(sender: Sender): void
  /**
   * Notifies listeners once of a transaction that never waits here, because a flashblock with it
   * came first.
   * @param retained entry that the txpool has for the transaction
   */
  announceLate(transaction: SignedTransaction, retained: Entry | undefined, outcome: Outcome): void
}

export function createAnnouncements(onNews: () => void): Announcements {
  const listeners = new Set<PendingListener>()
  return {
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    announceLate(transaction, retained, outcome) {
      if (!isUsed(outcome) || retained?.awaitsLateAnnouncement === false) return
      if (retained !== undefined) retained.awaitsLateAnnouncement = false
      for (const listener of listeners) listener(transaction.hash, transaction)
    },
    announce(sender) {
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
  'error' in outcome && outcome.error.code === 'nonceTooLow'
