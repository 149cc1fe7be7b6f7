/** Writes accepted transactions down, and the whole list anew when most of what was written is final. */
import type { Bytes } from '../primitives/bytes.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import { JournalError } from '../storage/directory/journal.ts'
import type { TxpoolJournal } from './types.ts'

export type JournalWriter = {
  /** @throws {JournalError} when it cannot be written: the transaction is not accepted then. */
  append(raw: Bytes): void
  /** It was found in the journal at the start. */
  noteFound(): void
  /** @param kept what was found and nothing is known of yet: it stays in whatever is written anew, until other ones are given */
  rewrite(kept?: readonly Bytes[]): void
  rewriteWhenDue(): void
}

/** `live`: everything that could still be lost. `slack`: entries beyond twice the live ones before the journal is written anew. */
export function createJournalWriter(
  journal: TxpoolJournal,
  live: () => readonly SignedTransaction[],
  slack: number,
): JournalWriter {
  let entries = 0
  let unknown: readonly Bytes[] = []
  const rewrite = (kept = unknown) => {
    unknown = kept
    // By nonce, so that none of a sender's waits behind a missing one while they are put back.
    const all = [...live()].sort((a, b) => (a.nonce < b.nonce ? -1 : a.nonce > b.nonce ? 1 : 0))
    journal.rewrite([...all.map(({ raw }) => raw), ...kept])
    entries = all.length + kept.length
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
    noteFound: () => void entries++,
    rewrite,
    rewriteWhenDue() {
      if (entries <= slack || entries <= 2 * (live().length + unknown.length) + slack) return
      try {
        rewrite()
      } catch (error) {
        // It goes on as it is, longer than it need be; the next append says what the disk has.
        if (!(error instanceof JournalError)) throw error
      }
    },
  }
}
