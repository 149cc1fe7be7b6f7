/** This module changes one value of a column directly in RocksDB, unlike any block. */
import { isDeepStrictEqual } from 'node:util'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { decodeHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { ColumnName } from '../../../engine/storage/database/columns.ts'
import { META } from '../../../engine/storage/database/meta.ts'
import type { Database, Entry } from '../../../engine/storage/database/types.ts'
import { plainRow } from '../../../engine/storage/trie/patch.ts'
import { replacedNodes } from '../../../engine/storage/trie/undo.ts'
import { ALL_KEYS } from '../../fixtures/stored-rows.ts'

type Random = () => number
type Spoilt = {
  /** The hex of the key that a report must name. */
  readonly key: string
}
type Kind = {
  readonly column: ColumnName
  /** Selects rows that another row or digest confirms. */
  readonly isChecked?: (row: Entry) => boolean
  /** The confirmed bytes of the value: start, and end unless it is the end of the value. */
  readonly bytes?: readonly [from: number, to?: number]
  /** A row without a value to spoil gets a second row beside it. */
  readonly isKey?: true
}

/** The kind (1) of a row of the ledger, and the offset (17) of a flashblock's head. */
const LEDGER_FLASHBLOCK = 1
const LEDGER_HEAD = 17

export const SPOILT: readonly Kind[] = [
  { column: 'accounts' },
  { column: 'slots' },
  { column: 'accountHistory' },
  { column: 'slotHistory' },
  { column: 'code' },
  { column: 'headers' },
  { column: 'bodies' },
  { column: 'receipts' },
  { column: 'diffs', isChecked: ({ value }) => value.length > 4 },
  { column: 'heights', isKey: true },
  { column: 'numbers' },
  { column: 'transactions' },
  { column: 'logs' },
  // The index of a flashblock has no other copy.
  { column: 'momentary', isChecked: ({ value }) => value.length > 40, bytes: [36] },
  { column: 'accountTrie' },
  { column: 'storageTrie' },
  { column: 'undo' },
  { column: 'ledger', isChecked: ({ key }) => key[0] === LEDGER_FLASHBLOCK, bytes: [LEDGER_HEAD] },
  {
    column: 'meta',
    isChecked: ({ key }) => Buffer.compare(key, META.labelledHeads) === 0,
    bytes: [0, 1],
  },
]

/**
 * Spoils one row.
 * @throws where the column has no such row
 */
export function spoil(database: Database, kind: Kind, random: Random): Spoilt {
  const isChecked = kind.column === 'undo' ? isUndone(database) : kind.isChecked
  const rows = [...database.scan(kind.column, ALL_KEYS)].filter((row) => isChecked?.(row) ?? true)
  const row = rows[Math.floor(random() * rows.length)]
  if (row === undefined) throw new Error(`${kind.column} has no row that could be spoilt`)
  const batch = database.batch()
  if (kind.isKey) {
    const key = flipped(row.key, random, [8])
    batch.put(kind.column, key, row.value)
    batch.commit()
    return { key: bytesToHex(key) }
  }
  batch.put(kind.column, row.key, spoiltValue(kind, row, random))
  batch.commit()
  return { key: bytesToHex(row.key) }
}

/** Selects rows of blocks that a reorg can still reach, because older rows are never restored. */
function isUndone(database: Database): (row: Entry) => boolean {
  const store = openStore(database)
  const reachable = new Set<string>()
  let { number, hash } = store.persistedHead()
  for (; store.canUnwindTo(number - 1); number--) {
    reachable.add(bytesToHex(hash))
    hash = decodeHeader(store.header(hash)!).parentHash
  }
  return ({ key, value }) => value.length > 4 && reachable.has(bytesToHex(key.subarray(0, 32)))
}

function spoiltValue(kind: Kind, row: Entry, random: Random): Bytes {
  const value = readAs(kind.column, row)
  for (;;) {
    const other = flipped(value, random, kind.bytes ?? [0])
    if (kind.column !== 'undo' || isOther(value, other)) return other
  }
}

/** Whether a restore gives another result, because a row's own patches may hide changed bytes. */
function isOther(value: Bytes, other: Bytes): boolean {
  try {
    return !isDeepStrictEqual(putBack(value), putBack(other))
  } catch {
    return true
  }
}
function putBack(value: Bytes) {
  const rows = {
    *scan() {
      yield { key: value, value }
    },
  }
  return [...replacedNodes(rows, new Uint8Array(32))].map((node) => ({
    ...node,
    raw: node.raw && plainRow(node.raw, (length) => new Uint8Array(length)).row.slice(),
  }))
}

/** Reads a trie row in its effective form, without bytes that a later patch hides. */
function readAs(column: ColumnName, { value }: Entry): Bytes {
  if (column !== 'accountTrie' && column !== 'storageTrie') return value
  return plainRow(value, (length) => new Uint8Array(length)).row
}

/** Flips one bit; empty bytes become one byte. */
function flipped(
  bytes: Bytes,
  random: Random,
  [from, to = bytes.length]: readonly [from: number, to?: number],
): Bytes {
  if (bytes.length === 0) return Uint8Array.of(1)
  const other = bytes.slice()
  const at = from + Math.floor(random() * (to - from))
  other[at]! ^= 1 << Math.floor(random() * 8)
  return other
}
