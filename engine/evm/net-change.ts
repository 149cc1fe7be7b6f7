/** The net change that a piece of the journal describes. */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import type { AccountChange, StateDiff } from '../state/diff.ts'
import type { AccountFields, Entry, Slot, Undo } from './journaled-state.ts'

/**
 * Every account and slot whose value differs from the one at `since`, in the order of the first change; `before` is the reader's value,
 * so that a slot that went back to it is still told.
 */
export function netChange(journal: readonly Undo[], since: number): StateDiff {
  const changed = new Map<Entry, Then>()
  for (let at = since; at < journal.length; at++) {
    const undo = journal[at]!
    if (undo.kind !== 'account' && undo.kind !== 'slot') continue
    let then = changed.get(undo.entry)
    if (then === undefined) {
      then = { account: undefined, slots: new Map() }
      changed.set(undo.entry, then)
    }
    if (undo.kind === 'account') then.account ??= undo.was
    else if (!then.slots.has(undo.slot)) then.slots.set(undo.slot, undo.was)
  }
  const diff: AccountChange[] = []
  for (const [entry, then] of changed) {
    const change = changeOf(entry, then)
    if (change !== undefined) diff.push(change)
  }
  return diff
}

/** Values at the beginning of the piece. */
type Then = { account: AccountFields | undefined; readonly slots: Map<Slot, Bytes> }

function changeOf(entry: Entry, then: Then): AccountChange | undefined {
  const { address, base, isThere, nonce, balance, codeHash, code } = entry
  const slots = []
  for (const [slot, was] of then.slots)
    if (!equalBytes(slot.value, was))
      slots.push({ key: slot.key, before: slot.base, after: slot.value })
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
