/** Entries of the txpool that are in a block, by sender and nonce. */
import type { Entry, Watcher } from './types.ts'

export type Included = {
  add(entry: Entry): void
  /** Nothing where another has its place. */
  drop(entry: Entry): void
  /** The first nonce from this one on that none of the sender's has. `sender`: key of its address. */
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
      if (own?.get(entry.transaction.nonce) !== entry) return
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
