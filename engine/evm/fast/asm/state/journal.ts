/**
 * Undo entries of 48 bytes, {kind, record, number, word}, one for each change. Positions are bytes
 * from the start and stay valid across frames, transactions and flashblocks. An entry is written
 * before its change, because the write may end the run.
 */
import { AREA_BYTES, areaOf, reserve, shrink } from '../memory/heap'
import { copy } from '../primitives/u256'

export const ENTRY_BYTES: usize = 48
export const E_RECORD: usize = 4
export const E_NUMBER: usize = 8
export const E_WORD: usize = 16

/** Flags of an account, as the number, and its balance, as the word. */
export const J_BALANCE: u32 = 1
/** Nonce of an account; J_FLAGS records a change of its flags. */
export const J_NONCE: u32 = 2
export const J_FLAGS: u32 = 3
/** Code entry, as the number, and code hash, as the word. */
export const J_CODE: u32 = 4
/** The storage was cleared. */
export const J_CLEARED: u32 = 5
export const J_SLOT: u32 = 6
/** Stamps of an account; the number is the previous stamp. */
export const J_TOUCHED: u32 = 7
export const J_DESTROYED: u32 = 8
export const J_CREATED: u32 = 9
export const J_WARM: u32 = 10
/** Stamp of a slot. */
export const J_WARM_SLOT: u32 = 11
/** Transient slot; the number is the run's. */
export const J_TRANSIENT: u32 = 12

export const JOURNAL: usize = memory.data(AREA_BYTES, 4)
const MIN_BYTES: usize = 48 << 10
/** Bytes that a closed session may leave to the next. */
const RETAINED_BYTES: usize = 1 << 20

export let journalEnd: usize = 0

// @ts-ignore: decorator
@inline
export function appendEntry(kind: u32, record: usize): usize {
  if (journalEnd + ENTRY_BYTES > <usize>load<u32>(JOURNAL, 4)) reserve(JOURNAL, journalEnd, max(MIN_BYTES, journalEnd + ENTRY_BYTES))
  const at = areaOf(JOURNAL) + journalEnd
  store<u32>(at, kind)
  store<u32>(at, <u32>record, E_RECORD)
  journalEnd += ENTRY_BYTES
  return at
}

// @ts-ignore: decorator
@inline
export function appendWord(kind: u32, record: usize, word: usize): void {
  copy(appendEntry(kind, record) + E_WORD, word)
}

// @ts-ignore: decorator
@inline
export function appendNumber(kind: u32, record: usize, number: u64): void {
  store<u64>(appendEntry(kind, record), number, E_NUMBER)
}

export function appendBoth(kind: u32, record: usize, number: u64, word: usize): void {
  const at = appendEntry(kind, record)
  store<u64>(at, number, E_NUMBER)
  copy(at + E_WORD, word)
}

// @ts-ignore: decorator
@inline
export function kindAt(position: usize): u32 {
  return load<u32>(areaOf(JOURNAL) + position)
}
// @ts-ignore: decorator
@inline
export function recordAt(position: usize): usize {
  return load<u32>(areaOf(JOURNAL) + position, E_RECORD)
}
// @ts-ignore: decorator
@inline
export function numberAt(position: usize): u64 {
  return load<u64>(areaOf(JOURNAL) + position, E_NUMBER)
}
// @ts-ignore: decorator
@inline
export function wordAt(position: usize): usize {
  return areaOf(JOURNAL) + position + E_WORD
}

/** Removes the last entry and returns its position. */
// @ts-ignore: decorator
@inline
export function takeLast(): usize {
  journalEnd -= ENTRY_BYTES
  return journalEnd
}

export function forgetJournal(): void {
  journalEnd = 0
  shrink(JOURNAL, RETAINED_BYTES)
}
