/**
 * Flat state: its reader at the persisted head, without view and history, and checksums of fetched
 * values. Only the thread that moves the head uses the reader. Nothing else in a lazy directory
 * could verify fetched values. A value that a block wrote has no checksum, because its diff and its
 * execution verify it.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { concatBytes, equalBytes } from '../../primitives/words.ts'
import { ACCOUNT_BYTES } from '../../state/account-codec.ts'
import type { Presence, StateReader } from '../../state/reader.ts'
import { bytesOf, wordsOf } from '../../state/words.ts'
import type { StoreReader } from '../types.ts'
import { slotKey } from './block-codec.ts'

/** Opens the reader of the state at the persisted head. */
export function flatState(store: StoreReader): StateReader {
  const put = (value: Bytes | undefined | 'missing', out: Uint32Array, at: number): Presence => {
    if (value === 'missing') return 'missing'
    if (value === undefined) return 'absent'
    out.set(wordsOf(value), at)
    return 'present'
  }
  return {
    account: (address, out, at) => put(store.flatAccount(bytesOf(address)), out, at),
    slot: (address, key, out, at) =>
      put(store.flatSlot(slotKey(bytesOf(address), bytesOf(key))), out, at),
    code: (hash) => (equalBytes(hash, EMPTY_HASH) ? NO_BYTES : (store.code(hash) ?? 'missing')),
    blockHash: (number) => (number < 0n ? undefined : store.hashOfNumber(Number(number))),
    hasSlots(address) {
      for (const _ of store.flatSlots(bytesOf(address))) return true
      return false
    },
    slots: (address) => store.flatSlots(bytesOf(address)),
  }
}

const CHECKSUM_BYTES = 8
const SLOT_BYTES = 32
const ADDRESS_BYTES = 20

/** Appends a checksum (8) of key and value. An absent or zero value stays empty. */
export function withChecksum(key: Bytes, value: Bytes): Bytes {
  if (value.length === 0) return value
  const row = new Uint8Array(value.length + CHECKSUM_BYTES)
  row.set(value)
  new DataView(row.buffer).setBigUint64(value.length, checksum(concatBytes(key, value)))
  return row
}

/** The value of a row, without its checksum if it has one. */
export function plainValue(key: Bytes, row: Bytes): Bytes {
  const length = key.length === ADDRESS_BYTES ? ACCOUNT_BYTES : SLOT_BYTES
  return row.length > length ? row.subarray(0, length) : row
}

/**
 * Checks the checksum of a row.
 * @returns 'none' if a block wrote the row, or an older version fetched it
 */
export function checkChecksum(key: Bytes, row: Bytes): 'right' | 'wrong' | 'none' {
  const value = plainValue(key, row)
  if (value.length === row.length) return 'none'
  if (row.length !== value.length + CHECKSUM_BYTES) return 'wrong'
  const stored = new DataView(row.buffer, row.byteOffset + value.length).getBigUint64(0)
  return stored === checksum(concatBytes(key, value)) ? 'right' : 'wrong'
}
