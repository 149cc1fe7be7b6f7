/**
 * This reader serves the state of a case. Parts may be missing until they are fetched, and any read
 * can fail.
 */
import { type Bytes, type Hex, NO_BYTES } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { type StateReader, ViewError } from '../../../engine/state/reader.ts'
import { bytesOf } from '../../../engine/state/words.ts'
import { memoryReader } from '../../fixtures/memory-reader.ts'
import type { CaseAccount, FuzzCase } from './case.ts'

export type CaseReader = StateReader & {
  /** Makes a missing part available. */
  fetch(what: string): void
  fetchAll(): void
  /** Whether a part is still missing. */
  isLacking(): boolean
  /** Makes the n-th read from now on fail; undefined: no read fails. */
  failAt(reads: number | undefined): void
}

export const wordOf = (hex: Hex): Bytes => bigintToBytes(BigInt(hex), 32)
export const bytesOrNone = (hex: Hex | undefined): Bytes =>
  hex === undefined || hex === '0x' ? NO_BYTES : hexToBytes(hex)

/** Makes the state that all runs of a case read. */
export const stateOf = ({ accounts }: FuzzCase): StateReader =>
  memoryReader({
    diff: Object.entries(accounts).flatMap(([address, account]) =>
      accountDiff(address as Hex, account),
    ),
    blockHash: (number) => keccak256(Buffer.from(`block ${number}`)),
  })

export function readerOf({ missing }: FuzzCase, reader: StateReader): CaseReader {
  const absent = new Set(missing)
  let left = Number.POSITIVE_INFINITY
  const isAbsent = (what: () => string): boolean => {
    if (--left < 0) throw new ViewError('gone', 'the case lets this read fail')
    return absent.size > 0 && absent.has(what())
  }
  const hex = (words: Uint32Array) => bytesToHex(bytesOf(words))
  return {
    account: (address, out, at) =>
      isAbsent(() => `account ${hex(address)}`) ? 'missing' : reader.account(address, out, at),
    slot: (address, key, out, at) =>
      isAbsent(() => `slot ${hex(key)} of ${hex(address)}`)
        ? 'missing'
        : reader.slot(address, key, out, at),
    code: (hash) => (isAbsent(() => `code ${bytesToHex(hash)}`) ? 'missing' : reader.code(hash)),
    blockHash: (number) =>
      isAbsent(() => `hash of block ${number}`) ? 'missing' : reader.blockHash(number),
    hasSlots: (address) => reader.hasSlots(address),
    slots: (address) => reader.slots(address),
    fetch: (what) => void absent.delete(what),
    fetchAll: () => absent.clear(),
    isLacking: () => absent.size > 0,
    failAt(reads) {
      left = reads ?? Number.POSITIVE_INFINITY
    },
  }
}

/** An account without nonce, balance and code does not exist for a reader. */
function accountDiff(address: Hex, account: CaseAccount): StateDiff {
  const code = bytesOrNone(account.code)
  const nonce = BigInt(account.nonce ?? 0)
  const balance = BigInt(account.balance ?? 0)
  if (code.length === 0 && nonce === 0n && balance === 0n) return []
  const slots = Object.entries(account.storage ?? {})
  return [
    {
      address: hexToBytes(address),
      before: undefined,
      after: { nonce, balance, codeHash: keccak256(code) },
      slots: slots.map(([key, value]) => ({
        key: wordOf(key as Hex),
        before: wordOf('0x0'),
        after: wordOf(value),
      })),
      code: code.length > 0 ? code : undefined,
    },
  ]
}
