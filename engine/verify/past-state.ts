/**
 * The state after any retained block, from flat state and history, or from the diffs of unpersisted
 * blocks.
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import type { Presence, StateReader } from '../state/reader.ts'
import { bytesOf, latin1, wordsOf } from '../state/words.ts'
import { slotKey } from '../storage/blocks/block-codec.ts'
import type { Database } from '../storage/database/types.ts'
import type { StoreReader } from '../storage/types.ts'
import { ALL } from './verifying.ts'

/** `value`: undefined for absent or zero; 'missing' in a lazy directory. */
export type PastValue = {
  readonly value: Bytes | undefined | 'missing'
  /** Whether the value comes from a history row instead of flat state. */
  readonly isHistory: boolean
}

/** Values that unpersisted blocks left, by key, up to the block that is read. */
export type Overlay = ReadonlyMap<string, Bytes | undefined>

/** @param key address, or address ‖ slot */
export function valueAt(store: StoreReader, key: Bytes, number: number): PastValue {
  const isAccount = key.length === ADDRESS_BYTES
  const past = isAccount ? store.accountHistory(key, number) : store.slotHistory(key, number)
  if (past !== 'unchanged') return { value: past, isHistory: true }
  return { value: isAccount ? store.flatAccount(key) : store.flatSlot(key), isHistory: false }
}
const ADDRESS_BYTES = 20

export type Past = {
  readonly store: StoreReader
  readonly slotsOf: (address: Bytes) => Iterable<Bytes>
  readonly hashOf: (number: number) => Bytes | undefined
}

/** Opens the state after block `number`, or after `overlay`. */
export function pastState(
  { store, slotsOf, hashOf }: Past,
  number: number,
  overlay: Overlay,
): StateReader {
  const value = (key: Bytes) => {
    const name = latin1(key)
    return overlay.has(name) ? overlay.get(name) : valueAt(store, key, number).value
  }
  const put = (key: Bytes, out: Uint32Array, at: number): Presence => {
    const found = value(key)
    if (found === 'missing') return 'missing'
    if (found === undefined) return 'absent'
    out.set(wordsOf(found), at)
    return 'present'
  }
  function* slots(address: Bytes) {
    for (const key of slotsOf(address)) {
      const found = value(slotKey(address, key))
      if (found !== undefined && found !== 'missing') yield { key, value: found }
    }
  }
  return {
    account: (address, out, at) => put(bytesOf(address).slice(), out, at),
    slot: (address, key, out, at) => put(slotKey(bytesOf(address), bytesOf(key)), out, at),
    code: (hash) => (equalBytes(hash, EMPTY_HASH) ? NO_BYTES : (store.code(hash) ?? 'missing')),
    blockHash: (height) => (height < 0n ? undefined : hashOf(Number(height))),
    hasSlots(address) {
      const owner = bytesOf(address).slice()
      // An absent account has no storage, because storage is deleted with the account.
      if (value(owner) === undefined) return false
      for (const _ of slots(owner)) return true
      return false
    },
    slots: (address) => slots(bytesOf(address).slice()),
  }
}

/**
 * Returns a function that lists every slot that an account has or had.
 * The first call reads the whole slot history once, because a read for each address would scan the
 * whole column. This concerns chains where accounts can be destroyed.
 */
export function slotLists(
  database: Database,
  store: StoreReader,
): (address: Bytes) => Iterable<Bytes> {
  let past: ReadonlyMap<string, ReadonlySet<string>> | undefined
  return function* (address) {
    past ??= pastSlots(database)
    const seen = new Set<string>()
    for (const { key } of store.flatSlots(address)) {
      seen.add(latin1(key))
      yield key
    }
    for (const key of past.get(latin1(address)) ?? [])
      if (!seen.has(key)) yield Uint8Array.from(Buffer.from(key, 'latin1'))
  }
}

/** Returns the slot keys in the history, by address. */
function pastSlots(database: Database): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>()
  let count = 0
  for (const { key } of database.scan('slotHistory', ALL)) {
    const owner = latin1(key.subarray(0, ADDRESS_BYTES))
    const slots = found.get(owner) ?? new Set()
    found.set(owner, slots)
    slots.add(latin1(key.subarray(ADDRESS_BYTES, 52)))
    if (++count > MAX_PAST)
      throw new TooLargeError(
        `more than ${MAX_PAST} rows of slots' history: what contracts had that were destroyed cannot be listed`,
      )
  }
  return found
}
/** Maximum number of rows in memory, some gigabytes; only chains before Cancun need them. */
const MAX_PAST = 5_000_000

/** The block cannot be executed here, because its history is too large. */
export class TooLargeError extends Error {
  override name = 'TooLargeError'
}
