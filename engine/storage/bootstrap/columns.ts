/**
 * Columns that a replica copies row by row, and checks of their rows. All other columns follow from
 * blocks and state.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { compareBytes, equalBytes } from '../../primitives/words.ts'
import { ACCOUNT_BYTES } from '../../state/account-codec.ts'
import { decodeNumber } from '../blocks/block-codec.ts'
import type { Entry } from '../database/types.ts'

export const COPIED = ['code', 'accounts', 'slots', 'accountHistory', 'slotHistory'] as const
export type CopiedColumn = (typeof COPIED)[number]
export const isCopied = (name: string): name is CopiedColumn =>
  COPIED.some((column) => column === name)

/** Bytes of the key before the block number; undefined for a column without history. */
export const historyPrefix = (column: CopiedColumn): number | undefined =>
  HISTORY_PREFIX[column as keyof typeof HISTORY_PREFIX]
const HISTORY_PREFIX = { accountHistory: 20, slotHistory: 52 } as const

const KEY_BYTES: Readonly<Record<CopiedColumn, number>> = {
  code: 32,
  accounts: 20,
  slots: 52,
  accountHistory: 28,
  slotHistory: 60,
}
/** In a history column an empty value means absent. */
const VALUE_BYTES: Readonly<Record<CopiedColumn, readonly number[]>> = {
  code: [],
  accounts: [ACCOUNT_BYTES],
  slots: [32],
  accountHistory: [0, ACCOUNT_BYTES],
  slotHistory: [0, 32],
}

/** Requested rows. `to`: exclusive end; undefined: the end of the column. */
export type RowsRequest = {
  readonly column: CopiedColumn
  readonly from: Bytes
  readonly to: Bytes | undefined
  /** Rows of history are from blocks above `above` and up to `upTo`. */
  readonly above: number
  readonly upTo: number
}

/** Describes the first fault of the received rows; undefined if there is none. */
export function rowsFault(rows: readonly Entry[], request: RowsRequest): string | undefined {
  const { column, from, to } = request
  let last: Bytes | undefined
  for (const row of rows) {
    const fault = rowFault(row, request)
    if (fault !== undefined) return `row ${bytesToHex(row.key)} ${fault}`
    const isBelow =
      last === undefined ? compareBytes(row.key, from) < 0 : compareBytes(row.key, last) <= 0
    if (isBelow || (to !== undefined && compareBytes(row.key, to) >= 0))
      return `row ${bytesToHex(row.key)} of ${column} is out of its order or range`
    last = row.key
  }
  return undefined
}

function rowFault({ key, value }: Entry, { column, above, upTo }: RowsRequest): string | undefined {
  if (key.length !== KEY_BYTES[column])
    return `has a key of ${key.length} bytes, those of ${column} have ${KEY_BYTES[column]}`
  if (column === 'code')
    return equalBytes(keccak256(value), key) ? undefined : 'is not code of its hash'
  if (!VALUE_BYTES[column].includes(value.length)) return `has a value of ${value.length} bytes`
  if (column === 'slots' && value.every((byte) => byte === 0)) return 'is zero'
  const prefix = historyPrefix(column)
  if (prefix === undefined) return undefined
  const number = decodeNumber(key, prefix)
  return number > above && number <= upTo
    ? undefined
    : `is of block ${number}, asked for were ${above + 1} to ${upTo}`
}
