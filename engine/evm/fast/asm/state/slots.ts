/**
 * Records of slots: the reader's value, the current value, and the value before the transaction.
 */
import { A_FIRST, A_FLAGS, A_LAST, A_WORD, HAS_BASE, IS_CLEARED, IS_READ, RECORDS, RECORDS_BLOCK, transaction, warm } from './accounts'
import { take } from '../memory/heap'
import { ANSWER, ASKED, hostHasSlots, hostSlot, READ_MISSING, READ_PRESENT } from '../host/imports'
import { countOne, emptyTable, enlarge, hashOfWord, isFull, nextBucket, bucketOf, TABLE_BYTES } from './index-table'
import { J_CLEARED, J_SLOT, J_WARM_SLOT, appendEntry, appendNumber, appendWord } from './journal'
import { bswapCopy, copy, eq, isZero, zero } from '../primitives/u256'
import { wordToBytes20 } from '../primitives/words'

export const S_FLAGS: usize = 0
export const S_ACCOUNT: usize = 4
export const S_NEXT: usize = 8
const S_WARM: usize = 12
const S_ORIGINAL_OF: usize = 16
export const S_KEY: usize = 32
export const S_VALUE: usize = 64
const S_ORIGINAL: usize = 96
export const S_BASE: usize = 128
const SLOT_BYTES: usize = 160

/** The reader's value has been read, and the slot is in its account's list. */
const IS_SLOT_READ: u32 = 1
/** The slot was first read after its storage had been cleared, and so was zero. */
export const IS_FROM_CLEARED: u32 = 2

const SLOTS: usize = memory.data(TABLE_BYTES, 4)
const MIN_BUCKETS: u32 = 4096
const ZERO: usize = memory.data(32, 16)

export function forgetSlots(): void {
  emptyTable(SLOTS, MIN_BUCKETS)
}

/** Returns the record of a slot, perhaps before the reader's value is read. */
export function knownSlot(owner: usize, key: usize): usize {
  const hash = hashOfWord(owner, key)
  let bucket = bucketOf(SLOTS, hash)
  while (true) {
    const record = <usize>load<u32>(bucket)
    if (record == 0) break
    if (<usize>load<u32>(record, S_ACCOUNT) == owner && eq(record + S_KEY, key)) return record
    bucket = nextBucket(SLOTS, bucket)
  }
  const record = take(RECORDS, SLOT_BYTES, RECORDS_BLOCK)
  if (isFull(SLOTS)) {
    enlarge(SLOTS, hashOfSlot)
    bucket = bucketOf(SLOTS, hash)
    while (load<u32>(bucket) != 0) bucket = nextBucket(SLOTS, bucket)
  }
  memory.fill(record, 0, SLOT_BYTES)
  store<u32>(record, <u32>owner, S_ACCOUNT)
  copy(record + S_KEY, key)
  store<u32>(bucket, <u32>record)
  countOne(SLOTS)
  return record
}

function hashOfSlot(record: usize): u32 {
  return hashOfWord(load<u32>(record, S_ACCOUNT), record + S_KEY)
}

export function slot(owner: usize, key: usize): usize {
  const record = knownSlot(owner, key)
  if (!(load<u32>(record) & IS_SLOT_READ)) readSlot(owner, record)
  return record
}

function readSlot(owner: usize, record: usize): void {
  const flags = load<u32>(owner, A_FLAGS)
  zero(record + S_BASE)
  // An account that the reader does not have has no slots there. Slots of a missing account are
  // read all the same.
  if (flags & HAS_BASE || !(flags & IS_READ)) {
    wordToBytes20(ASKED, owner + A_WORD)
    bswapCopy(ASKED + 32, record + S_KEY)
    const presence = hostSlot()
    if (presence == READ_MISSING) return
    if (presence == READ_PRESENT) bswapCopy(record + S_BASE, ANSWER)
  }
  const isFromCleared = (flags & IS_CLEARED) != 0
  if (isFromCleared) zero(record + S_VALUE)
  else copy(record + S_VALUE, record + S_BASE)
  store<u32>(record, IS_SLOT_READ | (isFromCleared ? IS_FROM_CLEARED : 0))
  store<u32>(record, 0, S_ORIGINAL_OF)
  append(owner, record)
}

function append(owner: usize, record: usize): void {
  const last = <usize>load<u32>(owner, A_LAST)
  store<u32>(record, 0, S_NEXT)
  if (last == 0) store<u32>(owner, <u32>record, A_FIRST)
  else store<u32>(last, <u32>record, S_NEXT)
  store<u32>(owner, <u32>record, A_LAST)
}

// @ts-ignore: decorator
@inline
export function isWarmSlot(record: usize): bool {
  return load<u32>(record, S_WARM) == transaction
}

/** Warms a slot and its address. */
export function warmSlot(record: usize): void {
  warm(load<u32>(record, S_ACCOUNT))
  if (load<u32>(record, S_WARM) == transaction) return
  appendNumber(J_WARM_SLOT, record, load<u32>(record, S_WARM))
  store<u32>(record, transaction, S_WARM)
}
export function unstampSlot(record: usize, before: u32): void {
  store<u32>(record, before, S_WARM)
}

/** Returns a pointer to the value before the transaction. */
// @ts-ignore: decorator
@inline
export function originalOf(record: usize): usize {
  return load<u32>(record, S_ORIGINAL_OF) == transaction ? record + S_ORIGINAL : record + S_VALUE
}

export function setSlot(record: usize, value: usize): void {
  appendWord(J_SLOT, record, record + S_VALUE)
  if (load<u32>(record, S_ORIGINAL_OF) != transaction) {
    copy(record + S_ORIGINAL, record + S_VALUE)
    store<u32>(record, transaction, S_ORIGINAL_OF)
  }
  copy(record + S_VALUE, value)
}

/** Sets every slot to zero. Only a diff lists the reader's slots, because there may be millions. */
export function clearStorage(owner: usize): void {
  const flags = load<u32>(owner, A_FLAGS)
  if (flags & HAS_BASE && !(flags & IS_CLEARED)) {
    appendEntry(J_CLEARED, owner)
    store<u32>(owner, flags | IS_CLEARED, A_FLAGS)
  }
  for (let at = <usize>load<u32>(owner, A_FIRST); at != 0; at = load<u32>(at, S_NEXT)) if (!isZero(at + S_VALUE)) setSlot(at, ZERO)
}

/** Undoes a clearing. Slots that were zero only because of it are read again. */
export function unclearStorage(owner: usize): void {
  store<u32>(owner, load<u32>(owner, A_FLAGS) & ~IS_CLEARED, A_FLAGS)
  let at = <usize>load<u32>(owner, A_FIRST)
  store<u32>(owner, 0, A_FIRST)
  store<u32>(owner, 0, A_LAST)
  while (at != 0) {
    const next = <usize>load<u32>(at, S_NEXT)
    if (load<u32>(at) & IS_FROM_CLEARED) store<u32>(at, 0)
    else append(owner, at)
    at = next
  }
}

/** Returns whether an account has storage, even without code and nonce (EIP-7610). */
export function hasStorage(owner: usize): bool {
  for (let at = <usize>load<u32>(owner, A_FIRST); at != 0; at = load<u32>(at, S_NEXT)) if (!isZero(at + S_VALUE)) return true
  const flags = load<u32>(owner, A_FLAGS)
  if (!(flags & HAS_BASE) || flags & IS_CLEARED) return false
  wordToBytes20(ASKED, owner + A_WORD)
  return hostHasSlots() != 0
}
