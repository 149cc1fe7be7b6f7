/**
 * Flat values that were fetched carry a checksum behind them: nothing else in a lazy directory says what they were. What a block writes
 * has none: its diff and its execution say it.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'
import { concatBytes } from '../../primitives/words.ts'
import { ACCOUNT_BYTES } from '../../state/account-codec.ts'

const CHECKSUM_BYTES = 8
const SLOT_BYTES = 32
const ADDRESS_BYTES = 20

/** `value` ‖ checksum (8) of key and value. Of what is absent or zero nothing, as everywhere. */
export function withChecksum(key: Bytes, value: Bytes): Bytes {
  if (value.length === 0) return value
  const row = new Uint8Array(value.length + CHECKSUM_BYTES)
  row.set(value)
  new DataView(row.buffer).setBigUint64(value.length, checksum(concatBytes(key, value)))
  return row
}

/** The value of a row, with or without a checksum behind it. */
export function plainValue(key: Bytes, row: Bytes): Bytes {
  const length = key.length === ADDRESS_BYTES ? ACCOUNT_BYTES : SLOT_BYTES
  return row.length > length ? row.subarray(0, length) : row
}

/** 'none': it was not fetched, or by a version that wrote none. */
export function checkChecksum(key: Bytes, row: Bytes): 'right' | 'wrong' | 'none' {
  const value = plainValue(key, row)
  if (value.length === row.length) return 'none'
  if (row.length !== value.length + CHECKSUM_BYTES) return 'wrong'
  const stored = new DataView(row.buffer, row.byteOffset + value.length).getBigUint64(0)
  return stored === checksum(concatBytes(key, value)) ? 'right' : 'wrong'
}
