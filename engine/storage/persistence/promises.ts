/**
 * Opens the ledger at a start. Every promise at or below the durable head gets its outcome from the
 * stored chain.
 */
import { decodeHeader } from '../../primitives/header.ts'
import { openStore } from '../blocks/store.ts'
import { Ledger, type LedgerOptions } from '../ledger/ledger.ts'
import type { DecidingBlock, PromisedFlashblock } from '../ledger-types.ts'
import type { OpenedChain, StoredHead, StoreReader } from '../types.ts'

/**
 * Opens the ledger and decides what a crash left open.
 * @throws {DatabaseError} {StoredFormatError}
 */
export function openPromises(options: LedgerOptions, opened: OpenedChain): Ledger {
  const ledger = new Ledger(options)
  const store = openStore(options.database)
  ledger.recover(opened.durableHead.number, (number) => canonicalAt(store, opened, number))
  return ledger
}

/**
 * Records a flashblock's promises, and decides them at once if their block is durable already. A
 * flashblock can become visible while that block is in transit to the persistence thread.
 */
export function promise(ledger: Ledger, store: StoreReader, promised: PromisedFlashblock): void {
  if (ledger.promise(promised) === undefined) return
  const durable = store.durableHead()
  ledger.recover(durable.number, (number) => ancestorAt(store, durable, number))
}

/**
 * Ancestor of the durable head at a height near the head. The durable head may be on another branch
 * than the persisted blocks.
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

/** Canonical block of a height; undefined if its transactions are not stored. */
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
