/**
 * Writes accepted transactions to the journal, and rewrites the journal when most of its entries
 * are final.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import { JournalError } from '../storage/directory/journal.ts'
import type { TxpoolJournal } from './types.ts'

export type JournalWriter = {
  /**
   * Appends a transaction.
   * @throws {JournalError} when the write fails; the transaction is then not accepted
   */
  append(raw: Bytes): void
  /** Counts an entry that was found in the journal at the start. */
  countFound(): void
  /**
   * Rewrites the journal.
   * @param retained entries that were found but could not be restored; later rewrites include them
   * until they are replaced
   */
  rewrite(retained?: readonly Bytes[]): void
  rewriteWhenDue(): void
}

/**
 * Opens the writer.
 * @param live returns all transactions that could still be lost
 * @param slack number of entries beyond twice the live ones before a rewrite
 */
export function createJournalWriter(
  journal: TxpoolJournal,
  live: () => readonly SignedTransaction[],
  slack: number,
): JournalWriter {
  let entries = 0
  let unknown: readonly Bytes[] = []
  const rewrite = (retained = unknown) => {
    unknown = retained
    // The order is by nonce, so that no transaction waits behind a missing nonce during a restore.
    const all = [...live()].sort((a, b) => (a.nonce < b.nonce ? -1 : a.nonce > b.nonce ? 1 : 0))
    journal.rewrite([...all.map(({ raw }) => raw), ...retained])
    entries = all.length + retained.length
  }
  return {
    append(raw) {
      try {
        journal.append(raw)
      } catch (error) {
        if (!(error instanceof JournalError) || error.reason !== 'full') throw error
        rewrite()
        journal.append(raw)
      }
      entries++
    },
    countFound: () => void entries++,
    rewrite,
    rewriteWhenDue() {
      if (entries <= slack || entries <= 2 * (live().length + unknown.length) + slack) return
      try {
        rewrite()
      } catch (error) {
        // The journal stays longer than necessary. The next append reports the state of the disk.
        if (!(error instanceof JournalError)) throw error
      }
    },
  }
}
