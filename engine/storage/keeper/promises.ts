/** The ledger as a start finds it: every promise at or below the durable head gets its fate of the chain that is there. */
import { decodeHeader } from '../../primitives/header-codec.ts'
import { openStore } from '../blocks/store.ts'
import { Ledger, type LedgerOptions } from '../ledger/ledger.ts'
import type { DecidingBlock, PromisedFlashblock } from '../ledger-types.ts'
import type { OpenedChain, StoredHead, StoreReader } from '../types.ts'

/** @throws {DatabaseError} {StoredFormatError} */
export function openPromises(options: LedgerOptions, opened: OpenedChain): Ledger {
  const ledger = new Ledger(options)
  const store = openStore(options.database)
  ledger.recover(opened.durableHead.number, (number) => canonicalAt(store, opened, number))
  return ledger
}

/** A flashblock may be shown while the block that takes its place is on its way to the keeper: then it is decided at once. */
export function promise(ledger: Ledger, store: StoreReader, promised: PromisedFlashblock): void {
  if (ledger.promise(promised) === undefined) return
  const durable = store.durableHead()
  ledger.recover(durable.number, (number) => ancestorAt(store, durable, number))
}

/** Not far below the durable head, which may stand on another branch than what is folded. */
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

/** undefined: its transactions are not here. */
function canonicalAt(
  store: StoreReader,
  { unfolded }: OpenedChain,
  number: number,
): DecidingBlock | undefined {
  const block = unfolded.find((one) => one.number === number)
  if (block !== undefined) return block
  const hash = store.hashOfNumber(number)
  const body = hash && store.body(hash)
  return body && { number, transactions: body.transactions }
}
