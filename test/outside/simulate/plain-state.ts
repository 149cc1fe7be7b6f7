/**
 * The plain state after a flashblock or block: maps over the state of the first block, copied where
 * they change.
 */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import type { StateReader } from '../../../engine/state/reader.ts'
import { bytesOf, fromLatin1, latin1, wordsOf } from '../../../engine/state/words.ts'

type Value = Uint32Array | 'absent'
type Slots = ReadonlyMap<string, Value>

/** The changes since the first block. */
export type Changes = {
  readonly accounts: ReadonlyMap<string, Value>
  readonly slots: ReadonlyMap<string, Slots>
}
export const NO_CHANGES: Changes = { accounts: new Map(), slots: new Map() }

export function changed(before: Changes, diff: StateDiff, codes: Map<string, Bytes>): Changes {
  const accounts = new Map(before.accounts)
  const slots = new Map(before.slots)
  for (const change of diff) {
    const name = latin1(change.address)
    const { after, code } = change
    accounts.set(name, after === undefined ? 'absent' : wordsOf(encodeAccount(after)))
    if (after !== undefined && code !== undefined) codes.set(latin1(after.codeHash), code)
    if (change.slots.length === 0) continue
    const own = new Map(slots.get(name))
    for (const { key, after: value } of change.slots)
      own.set(latin1(key), value.every((byte) => byte === 0) ? 'absent' : wordsOf(value.slice()))
    slots.set(name, own)
  }
  return { accounts, slots }
}

/** Makes a reader; `blockHash` gives the hashes of ancestors. */
export function plainState(
  { accounts, slots }: Changes,
  under: {
    readonly genesis: StateReader
    readonly codes: ReadonlyMap<string, Bytes>
    readonly blockHash: (number: bigint) => Bytes | undefined
  },
): StateReader {
  const { genesis, codes } = under
  const take = (found: Value, out: Uint32Array, at: number) => {
    if (found === 'absent') return 'absent'
    out.set(found, at)
    return 'present'
  }
  return {
    account(address, out, at) {
      const found = accounts.get(latin1(address))
      return found === undefined ? genesis.account(address, out, at) : take(found, out, at)
    },
    slot(address, key, out, at) {
      const found = slots.get(latin1(address))?.get(latin1(key))
      return found === undefined ? genesis.slot(address, key, out, at) : take(found, out, at)
    },
    code: (hash) => codes.get(latin1(hash)) ?? genesis.code(hash),
    blockHash: under.blockHash,
    hasSlots(address) {
      for (const _ of this.slots(address)) return true
      return false
    },
    *slots(address) {
      const own = slots.get(latin1(address))
      for (const slot of genesis.slots(address))
        if (own?.get(latin1(slot.key)) === undefined) yield slot
      for (const [key, value] of own ?? [])
        if (value !== 'absent') yield { key: fromLatin1(key), value: bytesOf(value).slice() }
    },
  }
}
