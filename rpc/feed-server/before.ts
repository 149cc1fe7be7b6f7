/** Hash of the values that changes replace, so that a reader with a different state notices it. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { ACCOUNT_BYTES, writeAccount } from '../../engine/state/account-codec.ts'
import type { StateDiff } from '../../engine/state/diff.ts'

/**
 * Hashes the replaced values with keccak256. Each account, in order of its bytes, gives its 72
 * bytes before, or zeros. Then each of its slots, in order, gives 32 bytes.
 * @param diff changes of a piece of a block, whose `before` is the parent's state
 */
export function hashOfBefore(diff: StateDiff): Bytes {
  const slots = diff.reduce((sum, change) => sum + change.slots.length, 0)
  const bytes = new Uint8Array(diff.length * ACCOUNT_BYTES + slots * 32)
  let at = 0
  for (const { before, slots: changed } of diff.toSorted(byAddress)) {
    if (before !== undefined) writeAccount(before, bytes, at)
    at += ACCOUNT_BYTES
    for (const slot of changed.toSorted(byKey)) {
      bytes.set(slot.before, at)
      at += 32
    }
  }
  return keccak256(bytes)
}

const byAddress = (a: { readonly address: Bytes }, b: { readonly address: Bytes }) =>
  Buffer.compare(a.address, b.address)
const byKey = (a: { readonly key: Bytes }, b: { readonly key: Bytes }) =>
  Buffer.compare(a.key, b.key)
