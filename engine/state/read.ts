/** Single reads in plain values, for callers outside of hot loops. */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { decodeAccount } from './account-codec.ts'
import type { AccountState } from './diff.ts'
import { ACCOUNT_WORDS, MissingError, SLOT_WORDS, type StateReader } from './reader.ts'
import { bytesOf, wordsOf } from './words.ts'

/**
 * Reads an account; undefined: no such account.
 * @throws {MissingError} {ViewError}
 */
export function readAccount(reader: StateReader, address: Bytes): AccountState | undefined {
  const words = new Uint32Array(ACCOUNT_WORDS)
  const presence = reader.account(wordsOf(address), words, 0)
  if (presence === 'missing') throw new MissingError({ kind: 'account', address })
  return presence === 'absent' ? undefined : decodeAccount(bytesOf(words))
}

/**
 * Reads a slot as 32 bytes, zero when the slot does not exist.
 * @throws {MissingError} {ViewError}
 */
export function readSlot(reader: StateReader, address: Bytes, key: Bytes): Bytes {
  const words = new Uint32Array(SLOT_WORDS)
  const presence = reader.slot(wordsOf(address), wordsOf(key), words, 0)
  if (presence === 'missing') throw new MissingError({ kind: 'slot', address, key })
  if (presence === 'absent') words.fill(0)
  return bytesOf(words)
}

/**
 * Reads an account's code, empty when there is none.
 * @throws {MissingError} {ViewError}
 */
export function readCode(reader: StateReader, address: Bytes): Bytes {
  const account = readAccount(reader, address)
  if (account === undefined) return NO_BYTES
  const code = reader.code(account.codeHash)
  if (code === 'missing') throw new MissingError({ kind: 'code', hash: account.codeHash })
  return code
}
