/** Encoding of state diffs for the disk. */
import type { Bytes } from '../primitives/bytes.ts'
import { ACCOUNT_BYTES, decodeAccount, writeAccount } from './account-codec.ts'
import type { AccountChange, EncodedDiff, SlotChange, StateDiff } from './diff.ts'
import {
  changesOf,
  type EncodedChange,
  HAS_AFTER,
  HAS_BEFORE,
  HAS_CODE,
  SLOT_BYTES,
} from './encoded-diff.ts'

/**
 * Encodes a state diff; numbers are big-endian and parts without their flag are left out.
 * Layout: count of accounts (u32), then for each account: address (20) ‖ flags (1) ‖ account before
 * ‖ account after ‖ slot count (u32) ‖ slots (key, before, after: 96) ‖ code length (u32) ‖ code.
 */
export function encodeDiff(diff: StateDiff): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(diff.reduce((size, change) => size + sizeOf(change), 4))
  const view = new DataView(bytes.buffer)
  view.setUint32(0, diff.length)
  let at = 4
  for (const change of diff) at = writeChange(change, bytes, { view, at })
  return bytes
}

/** @throws {DiffError} with the offset, when the bytes are no diff */
export function decodeDiff(bytes: EncodedDiff): StateDiff {
  const changes: AccountChange[] = []
  for (const change of changesOf(bytes)) changes.push(readChange(bytes, change))
  return changes
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
