/**
 * Checks the promise ledger: promises by the checksum in their key, outcomes by the canonical
 * block, and the index of transactions.
 */
import { equalBytes } from '../primitives/words.ts'
import { latin1 } from '../state/words.ts'
import { decodeNumber } from '../storage/blocks/block-codec.ts'
import type { Entry } from '../storage/database/types.ts'
import {
  DECIDED_KEY,
  decodeFlashblockRow,
  flashblockKey,
  flashblockOf,
  heights,
  NO_HEIGHT,
  promisedIn,
  rangeOf,
  transactionKey,
} from '../storage/ledger/codec.ts'
import type { PromiseOutcome } from '../storage/ledger-types.ts'
import { faultOf, type Verifying } from './verifying.ts'

/** Checks all rows; yields after each. */
export function* checkLedger(verifying: Verifying): Generator<undefined, void> {
  const { database, findings, counts } = verifying
  const decided = database.get('ledger', DECIDED_KEY)
  const upTo = decided === undefined ? -1 : decodeNumber(decided)
  for (const row of database.scan('ledger', heights('flashblock', 0, NO_HEIGHT))) {
    const fault = faultOf(() => checkPromises(verifying, row, upTo))
    if (fault !== undefined) findings.add({ where: 'ledger', key: row.key }, fault)
    counts.promises++
    yield
  }
  for (const row of database.scan('ledger', rangeOf('transaction'))) {
    const fault = faultOf(() => checkWay(verifying, row))
    if (fault !== undefined) findings.add({ where: 'ledger', key: row.key }, fault)
    yield
  }
}

/**
 * Checks that a transaction row leads to its promise.
 * @throws {Error} when it does not
 */
function checkWay({ database, findings }: Verifying, { key, value }: Entry): void {
  const leadsTo = flashblockOf(key)
  // A damaged flashblock row was reported before.
  if (findings.isNamed({ where: 'ledger', key: leadsTo })) return
  const of = database.get('ledger', leadsTo)
  if (value.length === 0 && of !== undefined && isPromisedBy(key, { key: leadsTo, value: of }))
    return
  throw new Error('leads to no flashblock that promised it')
}

/** @throws {Error} with the fault */
function checkPromises({ store, database }: Verifying, { key, value }: Entry, upTo: number): void {
  const row = decodeFlashblockRow(key, value)
  const { number, payloadId, index, atMs } = row
  const own = flashblockKey({ number, payloadId, index, atMs, transactions: promisedIn(value) })
  if (!equalBytes(own, key)) throw new Error('what was promised is not what its checksum says')
  for (const { hash } of row.transactions)
    if (database.get('ledger', transactionKey(hash, key)) === undefined)
      throw new Error('one of its transactions does not lead to it')
  const isDecided = row.decidedAtMs !== 0
  const hash = store.hashOfNumber(number)
  const body = hash && store.body(hash)
  // A block that is not persisted yet, or not here any more, cannot be compared.
  if (!isDecided || number > upTo || body === undefined) return
  const indexes = new Map(body.transactions.map((one, at) => [latin1(one.hash), at]))
  for (const { hash: promised, position, outcome } of row.transactions) {
    const at = indexes.get(latin1(promised))
    const expected: PromiseOutcome =
      at === undefined ? 'dropped' : at === position ? 'kept' : 'reordered'
    if (outcome !== expected && outcome !== 'unseen')
      throw new Error(`says that a promise was ${outcome}, by block ${number} it was ${expected}`)
  }
}

function isPromisedBy(key: Uint8Array, flashblock: Entry): boolean {
  const { transactions } = decodeFlashblockRow(flashblock.key, flashblock.value)
  return transactions.some(({ hash }) => equalBytes(transactionKey(hash, flashblock.key), key))
}
