/**
 * Encoding of accounts in flat state: 72 bytes, nonce (8) ‖ balance (32) ‖ code hash (32), all
 * big-endian.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { AccountState } from './diff.ts'

export const ACCOUNT_BYTES = 72
const MASK_64 = 0xffff_ffff_ffff_ffffn

/**
 * Encodes an account as 72 bytes.
 * @throws {RangeError} when a number does not fit its field
 */
export function encodeAccount(account: AccountState): Bytes {
  const bytes = new Uint8Array(ACCOUNT_BYTES)
  writeAccount(account, bytes, 0)
  return bytes
}

export function writeAccount(account: AccountState, into: Bytes, offset: number): void {
  const { nonce, balance, codeHash } = account
  if (nonce < 0n || nonce > MASK_64) throw new RangeError(`nonce ${nonce} is not 64 bits`)
  if (balance < 0n || balance >> 256n !== 0n)
    throw new RangeError(`balance ${balance} is not 256 bits`)
  if (codeHash.length !== 32)
    throw new RangeError(`code hash of ${codeHash.length} bytes, expected 32`)
  const view = new DataView(into.buffer, into.byteOffset + offset, ACCOUNT_BYTES)
  view.setBigUint64(0, nonce)
  view.setBigUint64(8, balance >> 192n)
  view.setBigUint64(16, (balance >> 128n) & MASK_64)
  view.setBigUint64(24, (balance >> 64n) & MASK_64)
  view.setBigUint64(32, balance & MASK_64)
  into.set(codeHash, offset + 40)
}

/**
 * Decodes an account. `codeHash` is a copy, because the account outlives the bytes.
 * @throws {RangeError} when there are fewer than 72 bytes at `offset`
 */
export function decodeAccount(bytes: Bytes, offset = 0): AccountState {
  if (bytes.length < offset + ACCOUNT_BYTES)
    throw new RangeError(`account of ${bytes.length - offset} bytes, expected ${ACCOUNT_BYTES}`)
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset, ACCOUNT_BYTES)
  const low = (view.getBigUint64(24) << 64n) | view.getBigUint64(32)
  const high = (view.getBigUint64(8) << 64n) | view.getBigUint64(16)
  return {
    nonce: view.getBigUint64(0),
    balance: high === 0n ? low : (high << 128n) | low,
    codeHash: bytes.slice(offset + 40, offset + ACCOUNT_BYTES),
  }
}
