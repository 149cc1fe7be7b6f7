/**
 * The txpool has three lists. The first has all entries by hash, including those in a block. The
 * second has the entries in a block by sender and nonce. The third has the senders whose next nonce
 * is missing. That nonce can be used without a transaction of theirs.
 */
import type { SignedTransaction } from '../primitives/transaction.ts'
import type { Sender } from './sender.ts'
import type { Entry, Watcher } from './types.ts'

/** All entries that the txpool has, by hash, including those in a block. */
export type RetainedEntries = {
  get(key: string): Entry | undefined
  add(entry: Entry): void
  /** Deletes the entry; returns false when there is none. */
  delete(entry: Entry): boolean
  /** Returns a copy of the list, oldest first. */
  list(): Entry[]
  readonly transactions: () => SignedTransaction[]
  readonly size: number
}

export function createRetainedEntries(watcher: Watcher | undefined): RetainedEntries {
  const byHash = new Map<string, Entry>()
  return {
    get: (key) => byHash.get(key),
    add(entry) {
      byHash.delete(entry.key)
      byHash.set(entry.key, entry)
      watcher?.retained(entry, true)
    },
    delete(entry) {
      watcher?.retained(entry, false)
      return byHash.delete(entry.key)
    },
    list: () => [...byHash.values()],
    transactions: () => [...byHash.values()].map(({ transaction }) => transaction),
    get size() {
      return byHash.size
    },
  }
}

/** Entries of the txpool that are in a block, by sender and nonce. */
export type Included = {
  add(entry: Entry): void
  /**
   * Removes the transaction, unless another one has taken its nonce. The transaction may have a
   * newer entry. It can be sent again before the txpool sees that its block is gone.
   */
  drop(entry: Entry): void
  /**
   * Returns the first nonce from this one on without an included transaction. `sender` is the key
   * of the address.
   */
  nonceAfter(sender: string, nonce: bigint): bigint
}

export function createIncluded(watcher: Watcher | undefined): Included {
  const bySender = new Map<string, Map<bigint, Entry>>()
  return {
    add(entry) {
      const own = bySender.get(entry.sender) ?? new Map<bigint, Entry>()
      bySender.set(entry.sender, own.set(entry.transaction.nonce, entry))
      watcher?.included(entry, true)
    },
    drop(entry) {
      const own = bySender.get(entry.sender)
      if (own?.get(entry.transaction.nonce)?.key !== entry.key) return
      own.delete(entry.transaction.nonce)
      watcher?.included(entry, false)
      if (own.size === 0) bySender.delete(entry.sender)
    },
    nonceAfter(sender, nonce) {
      const own = bySender.get(sender)
      let next = nonce
      while (own?.has(next) === true) next++
      return next
    },
  }
}

/**
 * Returns a function that finds senders without a transaction for the next nonce.
 * An authorization (EIP-7702) in another's transaction, or an edit of a development chain, can
 * raise their nonce. Each call continues after the last one.
 * @param count number of senders that one call checks
 */
export function createGapRound(
  senders: ReadonlyMap<string, Sender>,
  count: number,
): () => readonly Sender[] {
  let round = senders.values()
  return () => {
    const found: Sender[] = []
    for (let checked = 0; checked < count; checked++) {
      const { value: sender } = round.next()
      if (sender === undefined) {
        round = senders.values()
        break
      }
      if (!sender.entries.has(sender.nonce)) found.push(sender)
    }
    return found
  }
}
