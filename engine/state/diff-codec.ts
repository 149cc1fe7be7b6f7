/** State diffs as bytes, for the disk; and several in a row as one. */
import type { Bytes } from '../primitives/bytes.ts'
import { ACCOUNT_BYTES, decodeAccount, writeAccount } from './account-codec.ts'
import type { AccountChange, AccountState, EncodedDiff, SlotChange, StateDiff } from './diff.ts'
import {
  changesOf,
  type EncodedChange,
  HAS_AFTER,
  HAS_BEFORE,
  HAS_CODE,
  SLOT_BYTES,
} from './encoded-diff.ts'
import { latin1 } from './words.ts'

/**
 * Count of accounts (u32), then each: address (20) ‖ flags (1) ‖ account before ‖ account after ‖ slot count (u32) ‖ slots (key,
 * before, after: 96) ‖ code length (u32) ‖ code. What a flag denies is left out; numbers are big-endian.
 */
export function encodeDiff(diff: StateDiff): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(diff.reduce((size, change) => size + sizeOf(change), 4))
  const view = new DataView(bytes.buffer)
  view.setUint32(0, diff.length)
  let at = 4
  for (const change of diff) at = writeChange(change, bytes, { view, at })
  return bytes
}

/** @throws {DiffError} naming the offset, when the bytes are no diff. */
export function decodeDiff(bytes: EncodedDiff): StateDiff {
  const changes: AccountChange[] = []
  for (const change of changesOf(bytes)) changes.push(readChange(bytes, change))
  return changes
}

/**
 * The last `after` and the first `before` of everything; what ends as it began is dropped, but where `keepsAll`: then it is a piece of a
 * block, whose `before` are those of the block. Order: first appearance.
 */
export function mergeDiffs(list: readonly StateDiff[], keepsAll = false): StateDiff {
  const accounts = new Map<string, Merged>()
  for (const diff of list) for (const change of diff) add(accounts, change)
  const merged: AccountChange[] = []
  for (const { address, before, after, slots, code } of accounts.values()) {
    const changed = [...slots.values()].filter(
      (slot) => keepsAll || !isSame(slot.before, slot.after),
    )
    if (!keepsAll && changed.length === 0 && isSameAccount(before, after)) continue
    // Code that went and came back is the parent's still.
    const isOwnCode =
      before !== undefined && after !== undefined && isSame(before.codeHash, after.codeHash)
    merged.push({ address, before, after, slots: changed, code: isOwnCode ? undefined : code })
  }
  return merged
}

/** Whether both are absent, or both present and equal. */
export function isSameAccount(a: AccountState | undefined, b: AccountState | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return a.nonce === b.nonce && a.balance === b.balance && isSame(a.codeHash, b.codeHash)
}

function sizeOf({ before, after, slots, code }: AccountChange): number {
  return (
    20 +
    1 +
    (before === undefined ? 0 : ACCOUNT_BYTES) +
    (after === undefined ? 0 : ACCOUNT_BYTES) +
    4 +
    slots.length * SLOT_BYTES +
    (code === undefined ? 0 : 4 + code.length)
  )
}

function writeChange(change: AccountChange, bytes: Bytes, to: { view: DataView; at: number }) {
  const { address, before, after, slots, code } = change
  const { view } = to
  let { at } = to
  bytes.set(address, at)
  bytes[at + 20] =
    (before === undefined ? 0 : HAS_BEFORE) |
    (after === undefined ? 0 : HAS_AFTER) |
    (code === undefined ? 0 : HAS_CODE)
  at += 21
  for (const account of [before, after])
    if (account !== undefined) {
      writeAccount(account, bytes, at)
      at += ACCOUNT_BYTES
    }
  view.setUint32(at, slots.length)
  at += 4
  for (const slot of slots) {
    bytes.set(slot.key, at)
    bytes.set(slot.before, at + 32)
    bytes.set(slot.after, at + 64)
    at += SLOT_BYTES
  }
  if (code !== undefined) {
    view.setUint32(at, code.length)
    bytes.set(code, at + 4)
    at += 4 + code.length
  }
  return at
}

function readChange(diff: EncodedDiff, change: EncodedChange): AccountChange {
  const { at, beforeAt, afterAt, slotsAt, slotCount, code } = change
  const accountAt = (at: number | undefined) =>
    at === undefined ? undefined : decodeAccount(diff, at)
  const slots: SlotChange[] = []
  for (let slot = slotsAt; slot < slotsAt + slotCount * SLOT_BYTES; slot += SLOT_BYTES)
    slots.push({
      key: diff.slice(slot, slot + 32),
      before: diff.slice(slot + 32, slot + 64),
      after: diff.slice(slot + 64, slot + 96),
    })
  return {
    address: diff.slice(at, at + 20),
    before: accountAt(beforeAt),
    after: accountAt(afterAt),
    slots,
    code: code && diff.slice(code.at, code.at + code.length),
  }
}

type Merged = {
  readonly address: Bytes
  readonly before: AccountState | undefined
  after: AccountState | undefined
  readonly slots: Map<string, SlotChange>
  code: Bytes | undefined
}

function add(accounts: Map<string, Merged>, change: AccountChange): void {
  const { address, before, after, code } = change
  const key = latin1(address)
  let merged = accounts.get(key)
  if (merged === undefined) {
    merged = { address, before, after, slots: new Map(), code }
    accounts.set(key, merged)
  } else {
    const hasSameCode =
      after !== undefined &&
      merged.after !== undefined &&
      isSame(after.codeHash, merged.after.codeHash)
    merged.code = code ?? (hasSameCode ? merged.code : undefined)
    merged.after = after
  }
  for (const slot of change.slots) {
    const slotKey = latin1(slot.key)
    const earlier = merged.slots.get(slotKey)
    merged.slots.set(slotKey, earlier === undefined ? slot : { ...slot, before: earlier.before })
  }
}

const isSame = (a: Bytes, b: Bytes): boolean => Buffer.compare(a, b) === 0
