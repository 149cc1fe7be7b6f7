/** Computes the net change of a section of the journal. */
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import type { AccountChange, StateDiff } from '../../state/diff.ts'
import { latin1 } from '../../state/words.ts'
import type { AccountFields, Entry, Slot, Undo } from './entries.ts'

/** Lists the reader's slots of an account. */
type StorageOf = (address: Bytes) => Iterable<{ readonly key: Bytes; readonly value: Bytes }>

/**
 * Lists every account and slot whose value differs from the value at `since`, ordered by first
 * change. `before` is the reader's value, so a slot that returned to that value is still listed.
 */
export function netChange(journal: readonly Undo[], since: number, slotsOf: StorageOf): StateDiff {
  const changed = new Map<Entry, Then>()
  for (let at = since; at < journal.length; at++) {
    const undo = journal[at]!
    if (undo.kind === 'mark' || undo.kind === 'warm') continue
    let then = changed.get(undo.entry)
    if (then === undefined) {
      then = { account: undefined, slots: new Map(), isCleared: false }
      changed.set(undo.entry, then)
    }
    if (undo.kind === 'account') then.account ??= undo.was
    else if (undo.kind === 'cleared') then.isCleared = true
    else if (!then.slots.has(undo.slot)) then.slots.set(undo.slot, undo.was)
  }
  const diff: AccountChange[] = []
  for (const [entry, then] of changed) {
    const change = changeOf(entry, then, slotsOf)
    if (change !== undefined) diff.push(change)
  }
  return diff
}

/** Values at the start of the section. */
type Then = {
  account: AccountFields | undefined
  readonly slots: Map<Slot, Bytes>
  /** The storage was cleared within the section. */
  isCleared: boolean
}

function changeOf(entry: Entry, then: Then, slotsOf: StorageOf): AccountChange | undefined {
  const { address, base, isThere, nonce, balance, codeHash, code } = entry
  const slots = []
  for (const [slot, was] of then.slots) {
    // The value at the first change was zero only because of the clearing.
    const before = then.isCleared && slot.isFromCleared ? slot.base : was
    if (!equalBytes(slot.value, before))
      slots.push({ key: slot.key, before: slot.base, after: slot.value })
  }
  if (then.isCleared)
    for (const { key, value } of slotsOf(address)) {
      const slot = entry.slots.get(latin1(key))
      // Slots read before the clearing have their own change in the journal.
      const isSilent = slot === undefined || (slot.isFromCleared && !then.slots.has(slot))
      if (isSilent) slots.push({ key, before: value, after: ZERO_32 })
    }
  const hasNewCode =
    then.account !== undefined && isThere && !equalBytes(then.account.codeHash, codeHash)
  const isChanged =
    then.account !== undefined &&
    (hasNewCode ||
      then.account.isThere !== isThere ||
      then.account.nonce !== nonce ||
      then.account.balance !== balance)
  if (!isChanged && slots.length === 0) return undefined
  return {
    address,
    before: base,
    after: isThere ? { nonce, balance, codeHash } : undefined,
    slots,
    code: hasNewCode && !equalBytes(codeHash, EMPTY_HASH) ? code : undefined,
  }
}
