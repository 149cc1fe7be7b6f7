/**
 * Records of accounts: the reader's values, the current values, and stamps for warm, touched,
 * created and destroyed. A stamp is the number of a transaction. Stamps of ended transactions count
 * as unset, so nothing is cleared between two transactions.
 */
import { ARENA_BYTES, rewind, take } from '../memory/heap'
import { ANSWER, ASKED, hostAccount, READ_MISSING, READ_PRESENT } from '../host/imports'
import { countOne, emptyTable, enlarge, hashOfAddress, isFull, nextBucket, bucketOf, TABLE_BYTES } from './index-table'
import { J_BALANCE, J_CREATED, J_DESTROYED, J_FLAGS, J_NONCE, J_TOUCHED, J_WARM, appendBoth, appendNumber } from './journal'
import { bswapCopy, copy, isZero, zero } from '../primitives/u256'
import { wordToBytes20 } from '../primitives/words'

export const A_FLAGS: usize = 0
/** Pointer to the code entry; 0 before the first read. */
export const A_CODE: usize = 4
export const A_NONCE: usize = 8
/** First and last record in the list of slots that have been read. */
export const A_FIRST: usize = 16
export const A_LAST: usize = 20
const A_WARM: usize = 24
const A_TOUCHED: usize = 28
export const A_WORD: usize = 32
export const A_BALANCE: usize = 64
export const A_HASH: usize = 96
export const A_DESTROYED: usize = 128
const A_CREATED: usize = 132
export const A_BASE_NONCE: usize = 136
export const A_BASE_BALANCE: usize = 144
export const A_BASE_HASH: usize = 176
/** Number of the precompiled contract at the address; 0 if there is none. */
export const A_PRECOMPILE: usize = 208
const ACCOUNT_BYTES: usize = 224

/** The reader's account has been read. */
export const IS_READ: u32 = 1
/** The account exists, even if it is empty. */
export const IS_THERE: u32 = 2
/** The reader has the account. */
export const HAS_BASE: u32 = 4
/** Slots without a record are zero, whatever the reader has. */
export const IS_CLEARED: u32 = 8
/** The address is a precompiled contract, which is warm in every transaction. */
export const IS_ALWAYS_WARM: u32 = 16

const ACCOUNTS: usize = memory.data(TABLE_BYTES, 4)
/** Arena of account and slot records. */
export const RECORDS: usize = memory.data(ARENA_BYTES, 4)
export const RECORDS_BLOCK: usize = 1 << 16
const MIN_BUCKETS: u32 = 1024
/** keccak256 of empty input, as a word. */
export const EMPTY_HASH: usize = memory.data<u64>([0x7bfad8045d85a470, 0xe500b653ca82273b, 0x927e7db2dcc703c0, 0xc5d2460186f7233c], 16)

/** Increases only, so that a stamp of a reverted transaction never counts again. */
export let transaction: u32 = 1
export function nextTransaction(): void {
  transaction++
}

export function forgetAccounts(): void {
  rewind(RECORDS)
  emptyTable(ACCOUNTS, MIN_BUCKETS)
}

/**
 * Returns the record of an address, perhaps before the reader's account is read. The word's upper
 * 96 bits are ignored.
 */
export function knownAccount(word: usize): usize {
  const a0 = load<u64>(word)
  const a1 = load<u64>(word, 8)
  const a2 = load<u64>(word, 16) & 0xffffffff
  const hash = hashOfAddress(a0, a1, a2)
  let bucket = bucketOf(ACCOUNTS, hash)
  while (true) {
    const record = <usize>load<u32>(bucket)
    if (record == 0) break
    if (load<u64>(record, A_WORD) == a0 && load<u64>(record, A_WORD + 8) == a1 && load<u64>(record, A_WORD + 16) == a2) return record
    bucket = nextBucket(ACCOUNTS, bucket)
  }
  const record = take(RECORDS, ACCOUNT_BYTES, RECORDS_BLOCK)
  if (isFull(ACCOUNTS)) {
    enlarge(ACCOUNTS, hashOfAccount)
    bucket = bucketOf(ACCOUNTS, hash)
    while (load<u32>(bucket) != 0) bucket = nextBucket(ACCOUNTS, bucket)
  }
  memory.fill(record, 0, ACCOUNT_BYTES)
  store<u64>(record, a0, A_WORD)
  store<u64>(record, a1, A_WORD + 8)
  store<u64>(record, a2, A_WORD + 16)
  copy(record + A_HASH, EMPTY_HASH)
  store<u32>(bucket, <u32>record)
  countOne(ACCOUNTS)
  return record
}

function hashOfAccount(record: usize): u32 {
  return hashOfAddress(load<u64>(record, A_WORD), load<u64>(record, A_WORD + 8), load<u64>(record, A_WORD + 16))
}

/**
 * Returns the record of an address and reads the account. A missing account counts as absent and is
 * read again next time.
 */
export function account(word: usize): usize {
  const record = knownAccount(word)
  if (!(load<u32>(record) & IS_READ)) read(record)
  return record
}

export function read(record: usize): void {
  wordToBytes20(ASKED, record + A_WORD)
  const presence = hostAccount()
  if (presence == READ_MISSING) return
  let flags = load<u32>(record) | IS_READ
  if (presence == READ_PRESENT) {
    flags |= HAS_BASE | IS_THERE
    // The record may have cached the empty code while the account was missing.
    store<u32>(record, 0, A_CODE)
    const nonce = bswap<u64>(load<u64>(ANSWER))
    store<u64>(record, nonce, A_NONCE)
    store<u64>(record, nonce, A_BASE_NONCE)
    bswapCopy(record + A_BALANCE, ANSWER + 8)
    copy(record + A_BASE_BALANCE, record + A_BALANCE)
    bswapCopy(record + A_HASH, ANSWER + 40)
    copy(record + A_BASE_HASH, record + A_HASH)
  }
  store<u32>(record, flags)
}

// @ts-ignore: decorator
@inline
export function hasCode(record: usize): bool {
  return load<u64>(record, A_HASH) != load<u64>(EMPTY_HASH) || load<u64>(record, A_HASH + 8) != load<u64>(EMPTY_HASH, 8)
}

/** True if nonce, balance and code are empty (EIP-161). */
export function isEmpty(record: usize): bool {
  return load<u64>(record, A_NONCE) == 0 && isZero(record + A_BALANCE) && !hasCode(record)
}

// @ts-ignore: decorator
@inline
export function isWarm(record: usize): bool {
  return load<u32>(record, A_WARM) == transaction || (load<u32>(record) & IS_ALWAYS_WARM) != 0
}

/** Warms an address; a warmed precompiled contract is then reported as accessed. */
export function warm(record: usize): void {
  if (load<u32>(record, A_WARM) == transaction) return
  stamp(J_WARM, record, A_WARM)
}

export function touch(record: usize): void {
  if (load<u32>(record, A_TOUCHED) != transaction) stamp(J_TOUCHED, record, A_TOUCHED)
}

/** Marks the account for deletion at the end of the transaction. */
export function destroy(record: usize): void {
  touch(record)
  if (load<u32>(record, A_DESTROYED) != transaction) stamp(J_DESTROYED, record, A_DESTROYED)
}

export function markCreated(record: usize): void {
  if (load<u32>(record, A_CREATED) != transaction) stamp(J_CREATED, record, A_CREATED)
}
// @ts-ignore: decorator
@inline
export function isCreated(record: usize): bool {
  return load<u32>(record, A_CREATED) == transaction
}

function stamp(kind: u32, record: usize, field: usize): void {
  appendNumber(kind, record, load<u32>(record + field))
  store<u32>(record + field, transaction)
}

/** Restores a stamp. */
export function unstamp(kind: u32, record: usize, before: u32): void {
  if (kind == J_WARM) store<u32>(record, before, A_WARM)
  else if (kind == J_TOUCHED) store<u32>(record, before, A_TOUCHED)
  else if (kind == J_DESTROYED) store<u32>(record, before, A_DESTROYED)
  else store<u32>(record, before, A_CREATED)
}

/**
 * Sets the balance, and creates the account if it does not exist. `word` may be a field of the
 * account.
 */
export function setBalance(record: usize, word: usize): void {
  touch(record)
  const flags = load<u32>(record)
  appendBoth(J_BALANCE, record, flags, record + A_BALANCE)
  store<u32>(record, flags | IS_THERE)
  copy(record + A_BALANCE, word)
}

/** Sets the nonce, and creates the account if it does not exist. */
export function setNonce(record: usize, nonce: u64): void {
  touch(record)
  makeThere(record)
  appendNumber(J_NONCE, record, load<u64>(record, A_NONCE))
  store<u64>(record, nonce, A_NONCE)
}

export function makeThere(record: usize): void {
  const flags = load<u32>(record)
  if (flags & IS_THERE) return
  appendNumber(J_FLAGS, record, flags)
  store<u32>(record, flags | IS_THERE)
}

/** Deletes the account; the caller clears storage and code. */
export function clearAccount(record: usize): void {
  const flags = load<u32>(record)
  appendBoth(J_BALANCE, record, flags, record + A_BALANCE)
  appendNumber(J_NONCE, record, load<u64>(record, A_NONCE))
  store<u32>(record, flags & ~IS_THERE)
  zero(record + A_BALANCE)
  store<u64>(record, 0, A_NONCE)
}
