/** The ledger of promises: what was promised by the checksum in its key, fates by the canonical block, and each transaction's way to it. */
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
import type { Fate } from '../storage/ledger-types.ts'
import { faultOf, type Verifying } from './verifying.ts'

/** Each `next` has looked at one row more. */
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

/** Of a transaction to its promise. @throws {Error} where it leads to none */
function checkWay({ database, findings }: Verifying, { key, value }: Entry): void {
  const leadsTo = flashblockOf(key)
  // One that is damaged was told.
  if (findings.isNamed({ where: 'ledger', key: leadsTo })) return
  const of = database.get('ledger', leadsTo)
  if (value.length === 0 && of !== undefined && isPromisedBy(key, { key: leadsTo, value: of }))
    return
  throw new Error('leads to no flashblock that promised it')
}

/** @throws {Error} saying what is wrong */
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
  // A block that is not folded yet, or that is no longer here, says nothing.
  if (!isDecided || number > upTo || body === undefined) return
  const places = new Map(body.transactions.map((one, at) => [latin1(one.hash), at]))
  for (const { hash: promised, position, fate } of row.transactions) {
    const at = places.get(latin1(promised))
    const expected: Fate = at === undefined ? 'dropped' : at === position ? 'kept' : 'reordered'
    if (fate !== expected && fate !== 'unseen')
      throw new Error(`says that a promise was ${fate}, by block ${number} it was ${expected}`)
  }
}

function isPromisedBy(key: Uint8Array, flashblock: Entry): boolean {
  const { transactions } = decodeFlashblockRow(flashblock.key, flashblock.value)
  return transactions.some(({ hash }) => equalBytes(transactionKey(hash, flashblock.key), key))
}
