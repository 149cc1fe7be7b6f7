/** What the txpool's thread writes for others: the changes of one call together, so that nobody sees half of it. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { Entry, Watcher } from '../types.ts'
import { INCLUDED, OPEN, type WaitingMemory } from './memory.ts'
import { Rows } from './rows.ts'
import { openRuns } from './runs.ts'

export type WaitingWriter = Watcher & {
  /** Writes the nonces that have changed: hashes are written as they come and go. */
  flush(): void
  /** Transactions of the txpool that have no room: while there are some, every hash is expected. */
  readonly unlisted: number
}

type Change = {
  readonly list: typeof INCLUDED | typeof OPEN
  readonly nonce: bigint
  readonly has: boolean
}
type Changes = { readonly address: Bytes; readonly all: Change[] }

/** At most one for a memory, on one thread. */
export function openWaitingWriter(memory: WaitingMemory): WaitingWriter {
  const expected = new Rows(memory.expected)
  const senders = new Rows(memory.senders)
  const runs = openRuns(memory.runs)
  const count = new Int32Array(memory.unlisted)
  /** Of what is kept, by hash: no more than the txpool has. */
  const unlisted = new Set<string>()
  /** Since the last flush: one call may take a nonce away and give it back. */
  const nonces = new Map<string, Changes>()

  function note({ sender, transaction }: Entry, list: Change['list'], has: boolean): void {
    const change = { list, nonce: transaction.nonce, has }
    const changes = nonces.get(sender)
    if (changes !== undefined) changes.all.push(change)
    else nonces.set(sender, { address: transaction.from, all: [change] })
  }
  function writeHash({ key, transaction }: Entry, has: boolean): void {
    expected.aim(transaction.hash)
    const seen = expected.open()
    const row = expected.find(seen)
    if (!has && row !== 0) expected.remove(row)
    const isLeftOut = has && row === 0 && expected.add() === 0
    if (isLeftOut) unlisted.add(key)
    else unlisted.delete(key)
    Atomics.store(count, 0, unlisted.size)
    expected.shut()
  }
  function writeNonces({ address, all }: Changes): void {
    senders.aim(address)
    const seen = senders.open()
    const found = senders.find(seen)
    const row = found === 0 ? senders.add() : found
    if (row !== 0) {
      for (const { list, nonce, has } of all) {
        const first = senders.data(row, list)
        senders.setData(row, list, has ? runs.add(first, nonce) : runs.remove(first, nonce))
      }
      if (senders.data(row, INCLUDED) === 0 && senders.data(row, OPEN) === 0) senders.remove(row)
    }
    senders.shut()
  }
  return {
    kept: writeHash,
    open: (entry, has) => note(entry, OPEN, has),
    included: (entry, has) => note(entry, INCLUDED, has),
    flush() {
      for (const changes of nonces.values()) writeNonces(changes)
      nonces.clear()
    },
    get unlisted() {
      return unlisted.size
    },
  }
}
