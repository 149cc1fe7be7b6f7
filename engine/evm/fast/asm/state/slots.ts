/**
 * Records of storage slots, by account record and key. A record has the reader's value, the current
 * value, and the value before the transaction. The reader is the host's state below the session.
 * Owners and records are pointers; keys and values are pointers to words of 32 bytes.
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
/** Transaction that warmed the slot last; 0: none. */
const S_WARM: usize = 12
/** Transaction that S_ORIGINAL belongs to; 0: none. */
const S_ORIGINAL_OF: usize = 16
export const S_KEY: usize = 32
export const S_VALUE: usize = 64
/** Value before the transaction S_ORIGINAL_OF. */
const S_ORIGINAL: usize = 96
/** The reader's value. */
export const S_BASE: usize = 128
const SLOT_BYTES: usize = 160

/** The reader's value has been read, and the slot is in its account's list. */
const IS_SLOT_READ: u32 = 1
/** The slot was first read after the account's storage had been cleared, so its value was zero. */
export const IS_FROM_CLEARED: u32 = 2

const SLOTS: usize = memory.data(TABLE_BYTES, 4)
const MIN_BUCKETS: u32 = 4096
const ZERO: usize = memory.data(32, 16)

/** Empties the table of slots. `forgetAccounts` drops the records themselves. */
export function forgetSlots(): void {
  emptyTable(SLOTS, MIN_BUCKETS)
}

/**
 * Returns the record of a slot, which is created if necessary. The reader is not asked, so the
 * record may have no value yet.
 */
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

/**
 * Returns the record of a slot and reads the reader's value if necessary. A missing slot counts as
 * zero and is read again next time. The host records its key, and returns it when the run ends.
 */
export function slot(owner: usize, key: usize): usize {
  const record = knownSlot(owner, key)
  if (!(load<u32>(record) & IS_SLOT_READ)) readSlot(owner, record)
  return record
}

function readSlot(owner: usize, record: usize): void {
  const flags = load<u32>(owner, A_FLAGS)
  zero(record + S_BASE)
  // An address without an account in the reader has only zero slots. If the account is missing
  // (READ_MISSING), the slot is read, because the account may exist.
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

/** Warms a slot and the address of its account. */
export function warmSlot(record: usize): void {
  warm(load<u32>(record, S_ACCOUNT))
  if (load<u32>(record, S_WARM) == transaction) return
  appendNumber(J_WARM_SLOT, record, load<u32>(record, S_WARM))
  store<u32>(record, transaction, S_WARM)
}
/** Restores the stamp of a warm slot when the journal is reverted. */
export function unstampSlot(record: usize, before: u32): void {
  store<u32>(record, before, S_WARM)
}

/** Returns a pointer to the value before the transaction. It is valid until the next `setSlot`. */
// @ts-ignore: decorator
@inline
export function originalOf(record: usize): usize {
  return load<u32>(record, S_ORIGINAL_OF) == transaction ? record + S_ORIGINAL : record + S_VALUE
}

/**
 * Sets the value of a slot that has been read, with a journal entry. The first write in a
 * transaction saves the original value. A revert leaves it saved, because it is still right.
 */
export function setSlot(record: usize, value: usize): void {
  appendWord(J_SLOT, record, record + S_VALUE)
  if (load<u32>(record, S_ORIGINAL_OF) != transaction) {
    copy(record + S_ORIGINAL, record + S_VALUE)
    store<u32>(record, transaction, S_ORIGINAL_OF)
  }
  copy(record + S_VALUE, value)
}

/**
 * Sets every slot of an account to zero, with journal entries. This serves state overrides, and the
 * removal of destroyed or empty accounts at the end of a transaction. IS_CLEARED covers slots that
 * have not been read, because the reader may have millions. The host lists them for a diff only.
 */
export function clearStorage(owner: usize): void {
  const flags = load<u32>(owner, A_FLAGS)
  if (flags & HAS_BASE && !(flags & IS_CLEARED)) {
    appendEntry(J_CLEARED, owner)
    store<u32>(owner, flags | IS_CLEARED, A_FLAGS)
  }
  for (let at = <usize>load<u32>(owner, A_FIRST); at != 0; at = load<u32>(at, S_NEXT)) if (!isZero(at + S_VALUE)) setSlot(at, ZERO)
}

/**
 * Undoes `clearStorage` when the journal is reverted. Slots that were first read after the clearing
 * become unread, so `slot` reads them again.
 */
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

/** Tells whether an account has a nonzero slot, for the collision check of CREATE (EIP-7610). */
export function hasStorage(owner: usize): bool {
  for (let at = <usize>load<u32>(owner, A_FIRST); at != 0; at = load<u32>(at, S_NEXT)) if (!isZero(at + S_VALUE)) return true
  const flags = load<u32>(owner, A_FLAGS)
  if (!(flags & HAS_BASE) || flags & IS_CLEARED) return false
  wordToBytes20(ASKED, owner + A_WORD)
  return hostHasSlots() != 0
}
