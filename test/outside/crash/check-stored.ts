/**
 * This check opens a database after a kill, without the node that wrote it. Each row is compared
 * with a plain execution.
 */
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { recover } from '../../../engine/storage/blocks/recover.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import { known } from '../../fixtures/known.ts'
import type { PlainChain } from '../../fixtures/plain-chain.ts'
import { ALL_KEYS, compareRows, trieRowsOf } from '../../fixtures/stored-rows.ts'

export type Stored = {
  readonly durable: number
  readonly persisted: number
  /** The compared rows of state, history, indexes and trie. */
  readonly rows: number
}

/**
 * Copies the directory of a dead process and opens the copy like a start does. New blocks are
 * executed plainly, and the rows are compared.
 * @throws {Error} naming the first difference
 */
export async function checkStored(
  datadir: string,
  { plain, random }: { readonly plain: PlainChain; readonly random: () => number },
): Promise<Stored> {
  const copy = `${datadir}.copy`
  cpSync(join(datadir, 'state'), copy, { recursive: true })
  const database = await openSmall(copy)
  try {
    const { opened } = recover(database, undefined)
    if (opened.dropped.length > 0) throw new Error('appended blocks were dropped for their roots')
    const store = openStore(database)
    await plain.extendTo(store, opened.durableHead.hash)
    const { number } = opened.persistedHead
    let rows = compareRows(database, ['accounts', 'slots'], plain.rowsAt(number))
    rows += compareRows(database, ['accountTrie', 'storageTrie'], trieRowsOf(plain.rowsAt(number)))
    rows += compareHistory(database, plain, { upTo: number, random })
    rows += compareIndexes(database, plain, number)
    return { durable: opened.durableHead.number, persisted: number, rows }
  } finally {
    await database.close()
    rmSync(copy, { recursive: true })
  }
}

/** Compares values at random heights, read like a reader at an old block reads them. */
function compareHistory(
  database: Database,
  plain: PlainChain,
  { upTo, random }: { readonly upTo: number; readonly random: () => number },
): number {
  const store = openStore(database)
  const { keys } = plain
  for (let sample = 0; sample < HISTORY_SAMPLES; sample++) {
    const key = keys[Math.floor(random() * keys.length)]!
    const number = Math.floor(random() * (upTo + 1))
    const bytes = hexToBytes(key)
    const isAccount = bytes.length === 20
    const flat = isAccount ? store.flatAccount(bytes) : store.flatSlot(bytes)
    const before = isAccount
      ? store.accountHistory(bytes, number)
      : store.slotHistory(bytes, number)
    const found = known(before === 'unchanged' ? flat : before)
    const is = found && bytesToHex(found)
    if (is !== plain.rowAt(key, number))
      throw new Error(`${key} at ${number} is ${is}, plainly ${plain.rowAt(key, number)}`)
  }
  return HISTORY_SAMPLES
}
const HISTORY_SAMPLES = 500

/**
 * Compares the indexes by number and by transaction: they must have the persisted chain and no
 * other entries.
 */
function compareIndexes(database: Database, plain: PlainChain, upTo: number): number {
  const store = openStore(database)
  let transactions = 0
  for (let number = 0; number <= upTo; number++) {
    const hash = plain.hashOf(number)!
    const stored = store.hashOfNumber(number)
    if (stored === undefined || !equalBytes(stored, hash))
      throw new Error(
        `number ${number} is ${stored && bytesToHex(stored)}, not ${bytesToHex(hash)}`,
      )
    for (const [index, transaction] of store.body(hash)!.transactions.entries()) {
      const location = store.transactionLocation(transaction.hash)
      if (location?.blockNumber !== number || location.index !== index)
        throw new Error(
          `transaction ${bytesToHex(transaction.hash)} is at ${JSON.stringify(location)}`,
        )
      transactions++
    }
  }
  const rows = { numbers: upTo + 1, transactions }
  for (const column of ['numbers', 'transactions'] as const) {
    const count = [...database.scan(column, ALL_KEYS)].length
    if (count !== rows[column]) throw new Error(`${column}: ${count} rows, plainly ${rows[column]}`)
  }
  return upTo + 1 + transactions
}
