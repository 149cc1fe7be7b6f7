/**
 * Writes the shared memory of the txpool. The nonce changes of one call are written together, so
 * that nobody reads half of them.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import type { Entry, Watcher } from '../types.ts'
import { INCLUDED, OPEN, type WaitingMemory } from './memory.ts'
import { Rows } from './rows.ts'
import { openRuns } from './runs.ts'

export type WaitingWriter = Watcher & {
  /** Writes the changed nonces. Hashes are written at once. */
  flush(): void
  /** Number of transactions without a row. While there are any, every hash is expected. */
  readonly unlisted: number
}

type Change = {
  readonly list: typeof INCLUDED | typeof OPEN
  readonly nonce: bigint
  readonly has: boolean
}
type Changes = { readonly address: Bytes; readonly all: Change[] }

/** Opens the writer; each memory has at most one, in one thread. */
export function openWaitingWriter(memory: WaitingMemory): WaitingWriter {
  const expected = new Rows(memory.expected)
  const senders = new Rows(memory.senders)
  const runs = openRuns(memory.runs)
  const count = new Int32Array(memory.unlisted)
  /** Retained transactions without a row, by hash. */
  const unlisted = new Set<string>()
  /** Changes since the last flush. One call may remove a nonce and add it again. */
  const nonces = new Map<string, Changes>()

  function update({ sender, transaction }: Entry, list: Change['list'], has: boolean): void {
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
    retained: writeHash,
    open: (entry, has) => update(entry, OPEN, has),
    included: (entry, has) => update(entry, INCLUDED, has),
    flush() {
      for (const changes of nonces.values()) writeNonces(changes)
      nonces.clear()
    },
    get unlisted() {
      return unlisted.size
    },
  }
}
