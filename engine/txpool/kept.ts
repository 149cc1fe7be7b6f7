/** All entries that the txpool knows, by hash: those in a block too. */
import type { SignedTransaction } from '../primitives/transaction.ts'
import type { Entry, Watcher } from './types.ts'

export type Kept = {
  get(key: string): Entry | undefined
  /** As the newest. */
  add(entry: Entry): void
  /** False: it was not there. */
  delete(entry: Entry): boolean
  /** Oldest first, as they are now. */
  list(): Entry[]
  readonly transactions: () => SignedTransaction[]
  readonly size: number
}

export function createKept(watcher: Watcher | undefined): Kept {
  const byHash = new Map<string, Entry>()
  return {
    get: (key) => byHash.get(key),
    add(entry) {
      byHash.delete(entry.key)
      byHash.set(entry.key, entry)
      watcher?.kept(entry, true)
    },
    delete(entry) {
      watcher?.kept(entry, false)
      return byHash.delete(entry.key)
    },
    list: () => [...byHash.values()],
    transactions: () => [...byHash.values()].map(({ transaction }) => transaction),
    get size() {
      return byHash.size
    },
  }
}
