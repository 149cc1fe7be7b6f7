/**
 * Checks the histories of accounts and slots: each block has exactly the rows of its changes. Sums
 * avoid a list of all rows.
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { checksum } from '../primitives/checksum.ts'
import { bytesToHex, hexToBytes } from '../primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../primitives/keccak.ts'
import { concatBytes, equalBytes } from '../primitives/words.ts'
import { encodeAccount } from '../state/account-codec.ts'
import type { DiffRow } from '../state/encoded-diff.ts'
import { latin1 } from '../state/words.ts'
import { decodeNumber, slotKey, withNumber } from '../storage/blocks/block-codec.ts'
import { columnsOf } from '../storage/blocks/persist.ts'
import { ALL, type Verifying } from './verifying.ts'

export interface HistorySums {
  /**
   * Checks the history of a block.
   * @param rows changes of the block by its execution
   */
  check(number: number, rows: readonly DiffRow[]): void
}

const COLUMNS = ['accountHistory', 'slotHistory'] as const

/** Sums both columns by block in one pass; yields after each row. */
export function* sumHistory(verifying: Verifying): Generator<undefined, HistorySums> {
  const { database, store, counts, findings } = verifying
  const first = store.oldestState() + 1
  const sums = new BigUint64Array(Math.max(0, store.persistedHead().number - first + 1))
  const firstOf = firstValues(verifying)
  for (const column of COLUMNS) {
    let last: Bytes = NO_BYTES
    for (const { key, value } of database.scan(column, ALL)) {
      const number = decodeNumber(key, key.length - 8)
      counts.history++
      const own = key.subarray(0, -8)
      if (!equalBytes(own, last) && firstOf !== undefined && !equalBytes(firstOf(own), value))
        findings.add(
          { where: column, key, block: number },
          `is ${bytesToHex(value)}, the genesis has ${bytesToHex(firstOf(own))}`,
        )
      last = own
      const at = number - first
      if (at >= 0 && at < sums.length) sums[at]! += sumOf(key, value)
      yield
    }
  }
  return {
    check(number, rows) {
      let sum = 0n
      for (const row of rows) sum += sumOf(withNumber(row.key, number), row.before ?? NO_BYTES)
      if (BigInt.asUintN(64, sum) !== sums[number - first]) nameRows(verifying, number, rows)
    },
  }
}

const sumOf = (key: Bytes, value: Bytes): bigint => checksum(concatBytes(key, value))

/** Finds the wrong rows of a block: first the expected ones, then superfluous ones. */
function nameRows(verifying: Verifying, block: number, rows: readonly DiffRow[]): void {
  const { database, findings } = verifying
  const expected = new Set<string>()
  for (const { key, before } of rows) {
    const own = withNumber(key, block)
    expected.add(latin1(own))
    const row = database.get(columnsOf(key).history, own)
    const location = { where: columnsOf(key).history, key: own, block }
    if (row === undefined) findings.add(location, `is missing: block ${block} changed it`)
    else if (!equalBytes(row, before ?? NO_BYTES))
      findings.add(location, `is ${bytesToHex(row)}, before block ${block} it was another`)
  }
  for (const column of COLUMNS)
    for (const { key } of database.scan(column, ALL))
      if (decodeNumber(key, key.length - 8) === block && !expected.has(latin1(key)))
        findings.add({ where: column, key, block }, `is too many: block ${block} did not change it`)
}

/**
 * Returns the genesis value of a key, which the key has before its first change.
 * @returns undefined when the directory starts later; its first state cannot be compared
 */
function firstValues({ store, chain }: Verifying): ((key: Bytes) => Bytes) | undefined {
  if (chain.alloc === undefined || store.oldestState() !== Number(chain.genesisNumber))
    return undefined
  const values = new Map<string, Bytes>()
  for (const [hex, { nonce = 0n, balance, code, storage = [] }] of chain.alloc) {
    const address = hexToBytes(hex)
    const codeHash = code === undefined || code.length === 0 ? EMPTY_HASH : keccak256(code)
    values.set(latin1(address), encodeAccount({ nonce, balance, codeHash }))
    for (const { key, value } of storage)
      if (value.some((byte) => byte !== 0)) values.set(latin1(slotKey(address, key)), value)
  }
  return (key) => values.get(latin1(key)) ?? NO_BYTES
}
