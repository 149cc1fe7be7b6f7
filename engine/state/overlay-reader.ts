/** A diff laid over another state: the state after a block whose parent's is at hand. */
import type { Bytes } from '../primitives/bytes.ts'
import { encodeAccount } from './account-codec.ts'
import type { StateDiff } from './diff.ts'
import type { StateReader } from './reader.ts'
import { bytesOf, fromLatin1, latin1, wordsOf } from './words.ts'

/** Indexes the diff once; reads that it does not hold go to `under`, block hashes always. */
export function overlayReader(diff: StateDiff, under: StateReader): StateReader {
  const { accounts, storage, codes } = indexDiff(diff)
  return {
    account(address, out, at) {
      const found = accounts.get(latin1(address))
      if (found === undefined) return under.account(address, out, at)
      if (found === 'absent') return 'absent'
      out.set(found, at)
      return 'present'
    },
    slot(address, key, out, at) {
      const found = storage.get(latin1(address))?.get(latin1(key))
      if (found === undefined) return under.slot(address, key, out, at)
      if (found === 'absent') return 'absent'
      out.set(found, at)
      return 'present'
    },
    code: (hash) => codes.get(latin1(hash)) ?? under.code(hash),
    blockHash: (number) => under.blockHash(number),
    *slots(address) {
      const changed = storage.get(latin1(address))
      for (const slot of under.slots(address))
        if (changed?.get(latin1(slot.key)) === undefined) yield slot
      for (const [key, value] of changed ?? [])
        if (value !== 'absent') yield { key: fromLatin1(key), value: bytesOf(value).slice() }
    },
  }
}

type Laid = Uint32Array | 'absent'

function indexDiff(diff: StateDiff) {
  const accounts = new Map<string, Laid>()
  const storage = new Map<string, Map<string, Laid>>()
  const codes = new Map<string, Bytes>()
  for (const { address, after, slots, code } of diff) {
    const key = latin1(address)
    accounts.set(key, after === undefined ? 'absent' : wordsOf(encodeAccount(after)))
    if (after !== undefined && code !== undefined) codes.set(latin1(after.codeHash), code)
    if (slots.length === 0) continue
    const laid = new Map<string, Laid>()
    for (const slot of slots)
      laid.set(
        latin1(slot.key),
        slot.after.every((byte) => byte === 0) ? 'absent' : wordsOf(slot.after.slice()),
      )
    storage.set(key, laid)
  }
  return { accounts, storage, codes }
}
