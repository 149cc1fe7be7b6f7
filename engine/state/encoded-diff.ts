/** Reads encoded state diffs in place: ten thousand changes without an object for each. */
import { type Bytes, newSlab, type Slab, take } from '../primitives/bytes.ts'
import { ACCOUNT_BYTES } from './account-codec.ts'
import type { EncodedDiff } from './diff.ts'

export const HAS_BEFORE = 1
export const HAS_AFTER = 2
export const HAS_CODE = 4

/** Slot key, value before and value after. */
export const SLOT_BYTES = 96
/** Address and flags. */
const HEAD_BYTES = 21
const KEYS_BYTES = 16_384

/** Offsets of the parts of one account's change; the address is at `at`. */
export type EncodedChange = {
  readonly at: number
  /** undefined: the account did not exist. */
  readonly beforeAt: number | undefined
  readonly afterAt: number | undefined
  readonly slotsAt: number
  readonly slotCount: number
  /** undefined: the diff does not set the code. */
  readonly code: { readonly at: number; readonly length: number } | undefined
  readonly end: number
}

/** A value that a diff changes, encoded as in flat state and history. */
export type DiffRow = {
  /** Address (20 bytes), or address ‖ slot (52 bytes). */
  readonly key: Bytes
  /**
   * Value before the block: 72 bytes of an account, 32 of a slot. undefined: no such account, or a
   * slot of zero.
   */
  readonly before: Bytes | undefined
  readonly after: Bytes | undefined
}

/**
 * Yields the changes in the order of the diff.
 * @throws {DiffError} with the offset, when the bytes are no diff
 */
export function* changesOf(diff: EncodedDiff): Generator<EncodedChange, void> {
  const view = viewOf(diff)
  need(diff, 0, 4)
  let at = 4
  for (let left = view.getUint32(0); left > 0; left--) {
    const change = changeAt(diff, view, at)
    yield change
    at = change.end
  }
  if (at !== diff.length)
    throw new DiffError(`state diff: ${diff.length - at} bytes too many at ${at}`)
}

/**
 * Yields each value that the diff changes, in the order of the diff.
 * @throws {DiffError} when the bytes are no diff
 */
export function* rowsOf(diff: EncodedDiff): Generator<DiffRow, void> {
  const keys = newSlab(KEYS_BYTES)
  for (const change of changesOf(diff)) {
    const { slotsAt, slotCount } = change
    if (isAccountChanged(diff, change)) yield accountRow(diff, change)
    for (let at = slotsAt; at < slotsAt + slotCount * SLOT_BYTES; at += SLOT_BYTES)
      if (isSlotChanged(diff, at)) yield slotRow(diff, { addressAt: change.at, at, keys })
  }
}

/**
 * Returns the rows of `rowsOf` in the order of their keys. The sort yields after each millisecond
 * of work.
 * @throws {DiffError} when the bytes are no diff
 */
export function* sortedRows(diff: EncodedDiff): Generator<undefined, Iterable<DiffRow>> {
  const found: EncodedChange[] = []
  for (const change of changesOf(diff)) if (found.push(change) % IN_STEP === 0) yield
  const changes = yield* sort(found, (a, b) => compareAt(diff, a.at, b.at, 20))
  const slots: (readonly number[])[] = []
  for (const { slotsAt, slotCount } of changes) {
    const offsets = Array.from({ length: slotCount }, (_, at) => slotsAt + at * SLOT_BYTES)
    const sorted = yield* sort(offsets, (a, b) => compareAt(diff, a, b, 32))
    if (slots.push(sorted) % IN_STEP === 0) yield
  }
  return inOrder(diff, changes, slots)
}

/**
 * Yields each code that the diff sets, with its hash.
 * @throws {DiffError} when the bytes are no diff
 */
export function* codesOf(
  diff: EncodedDiff,
): Generator<{ readonly hash: Bytes; readonly code: Bytes }, void> {
  for (const { afterAt, code } of changesOf(diff))
    if (afterAt !== undefined && code !== undefined)
      yield {
        hash: diff.subarray(afterAt + ACCOUNT_BYTES - 32, afterAt + ACCOUNT_BYTES),
        code: diff.subarray(code.at, code.at + code.length),
      }
}

function* inOrder(
  diff: EncodedDiff,
  changes: readonly EncodedChange[],
  slots: readonly (readonly number[])[],
): Generator<DiffRow, void> {
  const keys = newSlab(KEYS_BYTES)
  for (const [index, change] of changes.entries()) {
    if (isAccountChanged(diff, change)) yield accountRow(diff, change)
    for (const at of slots[index]!)
      if (isSlotChanged(diff, at)) yield slotRow(diff, { addressAt: change.at, at, keys })
  }
}

function changeAt(diff: EncodedDiff, view: DataView, at: number): EncodedChange {
  need(diff, at, HEAD_BYTES)
  const flags = diff[at + HEAD_BYTES - 1]!
  if (flags > (HAS_BEFORE | HAS_AFTER | HAS_CODE))
    throw new DiffError(`state diff: unknown flags ${flags} at ${at + HEAD_BYTES - 1}`)
  let end = at + HEAD_BYTES
  const take = (length: number): number => {
    need(diff, end, length)
    end += length
    return end - length
  }
  const beforeAt = flags & HAS_BEFORE ? take(ACCOUNT_BYTES) : undefined
  const afterAt = flags & HAS_AFTER ? take(ACCOUNT_BYTES) : undefined
  const slotCount = view.getUint32(take(4))
  const slotsAt = take(slotCount * SLOT_BYTES)
  if ((flags & HAS_CODE) === 0)
    return { at, beforeAt, afterAt, slotsAt, slotCount, code: undefined, end }
  const length = view.getUint32(take(4))
  const code = { at: take(length), length }
  return { at, beforeAt, afterAt, slotsAt, slotCount, code, end }
}

const accountAt = (diff: EncodedDiff, at: number | undefined): Bytes | undefined =>
  at === undefined ? undefined : diff.subarray(at, at + ACCOUNT_BYTES)

const accountRow = (diff: EncodedDiff, { at, beforeAt, afterAt }: EncodedChange): DiffRow => ({
  key: diff.subarray(at, at + 20),
  before: accountAt(diff, beforeAt),
  after: accountAt(diff, afterAt),
})

function slotRow(
  diff: EncodedDiff,
  { addressAt, at, keys }: { readonly addressAt: number; readonly at: number; readonly keys: Slab },
): DiffRow {
  const key = take(keys, 52)
  for (let byte = 0; byte < 20; byte++) key[byte] = diff[addressAt + byte]!
  for (let byte = 0; byte < 32; byte++) key[20 + byte] = diff[at + byte]!
  return { key, before: wordAt(diff, at + 32), after: wordAt(diff, at + 64) }
}

function wordAt(diff: EncodedDiff, at: number): Bytes | undefined {
  for (let byte = at; byte < at + 32; byte++)
    if (diff[byte] !== 0) return diff.subarray(at, at + 32)
  return undefined
}

function isAccountChanged(diff: EncodedDiff, { beforeAt, afterAt }: EncodedChange): boolean {
  if (beforeAt === undefined || afterAt === undefined) return beforeAt !== afterAt
  return compareAt(diff, beforeAt, afterAt, ACCOUNT_BYTES) !== 0
}

const isSlotChanged = (diff: EncodedDiff, at: number): boolean =>
  compareAt(diff, at + 32, at + 64, 32) !== 0

function compareAt(diff: EncodedDiff, a: number, b: number, length: number): number {
  for (let at = 0; at < length; at++) {
    const difference = diff[a + at]! - diff[b + at]!
    if (difference !== 0) return difference
  }
  return 0
}

const IN_STEP = 1_024

/** Merge sort that yields between steps, because sorting 10,000 slots at once took 20 ms. */
function* sort<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
): Generator<undefined, readonly T[]> {
  if (items.length <= IN_STEP) return items.toSorted(compare)
  const middle = items.length >> 1
  const left = yield* sort(items.slice(0, middle), compare)
  yield
  const right = yield* sort(items.slice(middle), compare)
  yield
  const merged: T[] = []
  for (let l = 0, r = 0; merged.length < items.length; ) {
    const isLeft = r === right.length || (l < left.length && compare(left[l]!, right[r]!) <= 0)
    merged.push(isLeft ? left[l++]! : right[r++]!)
    if (merged.length % IN_STEP === 0) yield
  }
  return merged
}

const viewOf = (diff: EncodedDiff) => new DataView(diff.buffer, diff.byteOffset, diff.length)

function need(diff: EncodedDiff, at: number, length: number): void {
  if (at + length > diff.length)
    throw new DiffError(
      `state diff: cut short, ${length} bytes expected at ${at} of ${diff.length}`,
    )
}

export class DiffError extends Error {
  override name = 'DiffError'
}
