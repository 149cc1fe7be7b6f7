/**
 * What was before each change, so that it can be undone: 48 bytes an entry, {kind, record, number, word}. Positions are bytes from the
 * begin; they cross frames, transactions and flashblocks. An entry is written before its change, for writing it may end the run.
 */
import { AREA_BYTES, areaOf, reserve, shrink } from './heap'
import { copy } from './u256'

export const ENTRY_BYTES: usize = 48
export const E_RECORD: usize = 4
export const E_NUMBER: usize = 8
export const E_WORD: usize = 16

/** Flags and balance of an account. */
export const J_BALANCE: u32 = 1
/** Its nonce. The flags stand beside it: the number's low half is the code of J_CODE. */
export const J_NONCE: u32 = 2
export const J_FLAGS: u32 = 3
/** Code and hash. */
export const J_CODE: u32 = 4
/** The storage was cleared. */
export const J_CLEARED: u32 = 5
export const J_SLOT: u32 = 6
/** Stamps of an account: the number is the one before. */
export const J_TOUCHED: u32 = 7
export const J_DESTROYED: u32 = 8
export const J_CREATED: u32 = 9
export const J_WARM: u32 = 10
/** Of a slot. */
export const J_WARM_SLOT: u32 = 11
/** The number is that of the run. */
export const J_TRANSIENT: u32 = 12

export const JOURNAL: usize = memory.data(AREA_BYTES, 4)
const LEAST_BYTES: usize = 48 << 10
/** What a session that is over leaves to the next. */
const KEPT_BYTES: usize = 1 << 20

export let journalEnd: usize = 0

// @ts-ignore: decorator
@inline
export function note(kind: u32, record: usize): usize {
  if (journalEnd + ENTRY_BYTES > <usize>load<u32>(JOURNAL, 4)) reserve(JOURNAL, journalEnd, max(LEAST_BYTES, journalEnd + ENTRY_BYTES))
  const at = areaOf(JOURNAL) + journalEnd
  store<u32>(at, kind)
  store<u32>(at, <u32>record, E_RECORD)
  journalEnd += ENTRY_BYTES
  return at
}

// @ts-ignore: decorator
@inline
export function noteWord(kind: u32, record: usize, word: usize): void {
  copy(note(kind, record) + E_WORD, word)
}

// @ts-ignore: decorator
@inline
export function noteNumber(kind: u32, record: usize, number: u64): void {
  store<u64>(note(kind, record), number, E_NUMBER)
}

export function noteBoth(kind: u32, record: usize, number: u64, word: usize): void {
  const at = note(kind, record)
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

/** Takes the last entry off and gives its position. */
// @ts-ignore: decorator
@inline
export function takeLast(): usize {
  journalEnd -= ENTRY_BYTES
  return journalEnd
}

export function forgetJournal(): void {
  journalEnd = 0
  shrink(JOURNAL, KEPT_BYTES)
}
