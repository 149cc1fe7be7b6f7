/** A name for the values that changes were made over: whoever has another state finds another one. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { ACCOUNT_BYTES, writeAccount } from '../../engine/state/account-codec.ts'
import type { StateDiff } from '../../engine/state/diff.ts'

/**
 * keccak256 of, for each account in the order of its bytes, its 72 bytes before (zero where there was none), and for each of its slots, in
 * the order of their bytes, the 32 before. `before` of a piece of a block are those of the block: its parent's state.
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
