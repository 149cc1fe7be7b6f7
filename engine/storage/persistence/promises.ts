/**
 * Opens the promise ledger, and records promises in the persistence thread. The durable head is the
 * newest appended block. The persisted head is the same block or an ancestor, except during an
 * unwind.
 */
import { decodeHeader } from '../../primitives/header.ts'
import { openStore } from '../blocks/store.ts'
import { Ledger, type LedgerOptions } from '../ledger/ledger.ts'
import type { DecidingBlock, PromisedFlashblock } from '../ledger-types.ts'
import type { OpenedChain, StoredHead, StoreReader } from '../types.ts'

/**
 * Opens the ledger when the persistence thread opens the database. Promises at or below the durable
 * head that a crash left open get their outcome from the stored chain. Promises above it are open.
 * @throws {DatabaseError} if a read or a commit fails
 * @throws {StoredFormatError} if a stored row cannot be decoded
 */
export function openPromises(options: LedgerOptions, opened: OpenedChain): Ledger {
  const ledger = new Ledger(options)
  const store = openStore(options.database)
  ledger.recover(opened.durableHead.number, (number) => canonicalAt(store, opened, number))
  return ledger
}

/**
 * Records the promises of a flashblock that became visible. Usually they stay open until the
 * canonical block of their height is appended. If that block is durable already, they are decided
 * at once. The writer can send the block before the promises. A known flashblock is skipped.
 * @throws {DatabaseError} if a read or a commit fails
 */
export function promise(ledger: Ledger, store: StoreReader, promised: PromisedFlashblock): void {
  // undefined: the promises were recorded and stay open, or the flashblock was known.
  if (ledger.promise(promised) === undefined) return
  const durable = store.durableHead()
  ledger.recover(durable.number, (number) => ancestorAt(store, durable, number))
}

/**
 * Returns the ancestor of the durable head at a height. `hashOfNumber` knows persisted blocks only,
 * and during an unwind they are on another branch than the durable head.
 * @param number at most the durable head's height; each block of distance costs one header read
 * @returns undefined if a header or the transactions are not stored
 */
function ancestorAt(
  store: StoreReader,
  durable: StoredHead,
  number: number,
): DecidingBlock | undefined {
  let at: StoredHead | undefined = durable
  while (at !== undefined && at.number > number) {
    const header = store.header(at.hash)
    at = header && { number: at.number - 1, hash: decodeHeader(header).parentHash }
  }
  const body = at && store.body(at.hash)
  return body && { number, transactions: body.transactions }
}

/** Returns the canonical block of a height; undefined if its transactions are not stored. */
function canonicalAt(
  store: StoreReader,
  { unpersisted }: OpenedChain,
  number: number,
): DecidingBlock | undefined {
  const block = unpersisted.find((one) => one.number === number)
  if (block !== undefined) return block
  const hash = store.hashOfNumber(number)
  const body = hash && store.body(hash)
  return body && { number, transactions: body.transactions }
}
