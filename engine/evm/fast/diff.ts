/**
 * Computes the net change of a section of the module's journal, like journal/net-change.ts for the
 * reference engine.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import type { AccessList } from '../../primitives/transaction.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import type { AccountChange, AccountState, SlotChange, StateDiff } from '../../state/diff.ts'
import { latin1 } from '../../state/words.ts'
import type { Instance } from './instance.ts'

/** Lists the reader's slots of an account. */
type StorageOf = (address: Bytes) => Iterable<{ readonly key: Bytes; readonly value: Bytes }>

/** Values at the start of the section, if they changed in it; slots by their record pointers. */
type Then = {
  nonce?: bigint
  balance?: bigint
  codeHash?: Bytes
  isThere?: boolean
  readonly slots: Map<number, Bytes>
  isCleared: boolean
}

/** Lists the changes since a journal position, ordered by first change. */
export function diffSince(
  instance: Instance,
  options: { readonly since: number; readonly storageOf: StorageOf; codeOf(record: number): Bytes },
): StateDiff {
  const changed = changedSince(instance, options.since)
  const diff: AccountChange[] = []
  for (const [record, then] of changed) {
    const change = changeOf(instance, record, { ...options, then })
    if (change !== undefined) diff.push(change)
  }
  return diff
}

function changedSince(instance: Instance, since: number): Map<number, Then> {
  const { layout, data } = instance
  const journal = data.getUint32(layout.JOURNAL, true)
  const end = instance.exports.checkpoint()
  const changed = new Map<number, Then>()
  const thenOf = (record: number): Then => {
    let then = changed.get(record)
    if (then === undefined) {
      then = { slots: new Map(), isCleared: false }
      changed.set(record, then)
    }
    return then
  }
  for (let at = journal + since; at < journal + end; at += layout.ENTRY_BYTES) {
    const record = data.getUint32(at + layout.E_RECORD, true)
    const flags = () => (data.getUint32(at + layout.E_NUMBER, true) & layout.IS_THERE) !== 0
    switch (data.getUint32(at, true)) {
      case layout.J_BALANCE: {
        const then = thenOf(record)
        then.balance ??= instance.number(at + layout.E_WORD)
        then.isThere ??= flags()
        break
      }
      case layout.J_NONCE:
        thenOf(record).nonce ??= data.getBigUint64(at + layout.E_NUMBER, true)
        break
      case layout.J_FLAGS:
        thenOf(record).isThere ??= flags()
        break
      case layout.J_CODE:
        thenOf(record).codeHash ??= instance.word(at + layout.E_WORD)
        break
      case layout.J_CLEARED:
        thenOf(record).isCleared = true
        break
      case layout.J_SLOT: {
        const { slots } = thenOf(data.getUint32(record + layout.S_ACCOUNT, true))
        if (!slots.has(record)) slots.set(record, instance.word(at + layout.E_WORD))
      }
    }
  }
  return changed
}

function changeOf(
  instance: Instance,
  record: number,
  options: {
    readonly then: Then
    readonly storageOf: StorageOf
    codeOf(record: number): Bytes
  },
): AccountChange | undefined {
  const { then, storageOf, codeOf } = options
  const { layout, data } = instance
  const address = instance.address(record + layout.A_WORD)
  const flags = data.getUint32(record + layout.A_FLAGS, true)
  const isThere = (flags & layout.IS_THERE) !== 0
  const now = accountAt(instance, record)
  const slots = slotChanges(instance, record, then)
  if (then.isCleared) slots.push(...wiped(instance, record, { then, stored: storageOf(address) }))
  const hasNewCode =
    isThere && then.codeHash !== undefined && !equalBytes(then.codeHash, now.codeHash)
  const isChanged =
    hasNewCode ||
    (then.isThere ?? isThere) !== isThere ||
    (then.nonce ?? now.nonce) !== now.nonce ||
    (then.balance ?? now.balance) !== now.balance
  if (!isChanged && slots.length === 0) return undefined
  return {
    address,
    before: (flags & layout.HAS_BASE) !== 0 ? baseAt(instance, record) : undefined,
    after: isThere ? now : undefined,
    slots,
    code: hasNewCode && !equalBytes(now.codeHash, EMPTY_HASH) ? codeOf(record) : undefined,
  }
}

function slotChanges(instance: Instance, _record: number, then: Then): SlotChange[] {
  const { layout, data } = instance
  const slots: SlotChange[] = []
  for (const [slot, was] of then.slots) {
    const base = instance.word(slot + layout.S_BASE)
    const isFromCleared =
      (data.getUint32(slot + layout.S_FLAGS, true) & layout.IS_FROM_CLEARED) !== 0
    // The value at the first change was zero only because of the clearing.
    const before = then.isCleared && isFromCleared ? base : was
    const after = instance.word(slot + layout.S_VALUE)
    if (!equalBytes(after, before))
      slots.push({ key: instance.word(slot + layout.S_KEY), before: base, after })
  }
  return slots
}

/** Slots of the reader that the clearing set to zero and that have no change of their own. */
function wiped(
  instance: Instance,
  record: number,
  options: { readonly then: Then; readonly stored: ReturnType<StorageOf> },
): SlotChange[] {
  const { layout, data } = instance
  const known = new Map<string, number>()
  for (
    let slot = data.getUint32(record + layout.A_FIRST, true);
    slot !== 0;
    slot = data.getUint32(slot + layout.S_NEXT, true)
  )
    known.set(latin1(instance.word(slot + layout.S_KEY)), slot)
  const slots: SlotChange[] = []
  for (const { key, value } of options.stored) {
    const slot = known.get(latin1(key))
    // Slots read before the clearing have their own change in the journal.
    const isSilent =
      slot === undefined ||
      ((data.getUint32(slot + layout.S_FLAGS, true) & layout.IS_FROM_CLEARED) !== 0 &&
        !options.then.slots.has(slot))
    if (isSilent) slots.push({ key, before: value, after: ZERO_32 })
  }
  return slots
}

/** The account's current values. */
export function accountAt(instance: Instance, record: number): AccountState {
  const { layout, data } = instance
  return {
    nonce: data.getBigUint64(record + layout.A_NONCE, true),
    balance: instance.number(record + layout.A_BALANCE),
    codeHash: instance.word(record + layout.A_HASH),
  }
}

function baseAt(instance: Instance, record: number): AccountState {
  const { layout, data } = instance
  return {
    nonce: data.getBigUint64(record + layout.A_BASE_NONCE, true),
    balance: instance.number(record + layout.A_BASE_BALANCE),
    codeHash: instance.word(record + layout.A_BASE_HASH),
  }
}

/** Addresses and slots that became warm in the transaction, in that order. */
export function accessedIn(instance: Instance): AccessList {
  const { layout, data } = instance
  const journal = data.getUint32(layout.JOURNAL, true)
  const end = instance.exports.checkpoint()
  const keys = new Map<number, Bytes[]>()
  const start = instance.exports.transactionStart.value
  for (let at = journal + start; at < journal + end; at += layout.ENTRY_BYTES) {
    const kind = data.getUint32(at, true)
    const record = data.getUint32(at + layout.E_RECORD, true)
    if (kind === layout.J_WARM) keys.set(record, [])
    if (kind === layout.J_WARM_SLOT)
      keys
        .get(data.getUint32(record + layout.S_ACCOUNT, true))
        ?.push(instance.word(record + layout.S_KEY))
  }
  const isAlways = (record: number) =>
    (data.getUint32(record + layout.A_FLAGS, true) & layout.IS_ALWAYS_WARM) !== 0
  const named = [...keys].filter(([record, slots]) => slots.length > 0 || !isAlways(record))
  return named.map(([record, storageKeys]) => ({
    address: instance.address(record + layout.A_WORD),
    storageKeys,
  }))
}
