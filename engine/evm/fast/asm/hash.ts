/** Hashes of memory, with those of 64 bytes remembered: the slots of mappings are asked for again and again. */
import { allocate } from './heap'
import { keccak256 } from './keccak'
import { bswapCopy, copy, eq } from './u256'

const HASH: usize = memory.data(32, 16)
/** Remembered: 64 bytes, their hash as a word. */
const MEMO_BYTES: usize = 96
const MEMO_BITS: u32 = 10
let memo: usize = 0

export function makeMemo(): void {
  const bytes = MEMO_BYTES << MEMO_BITS
  memo = allocate(bytes)
  memory.fill(memo, 0, bytes)
  // So that 64 zeros are not found where nothing is.
  store<u64>(memo + MEMO_BYTES * placeOf(memo + 64), 1)
}

function placeOf(from: usize): u32 {
  const high = (load<u64>(from, 12) ^ load<u64>(from, 24)) * 0x9e3779b97f4a7c15
  const low = (load<u64>(from, 44) ^ load<u64>(from, 56)) * 0xbf58476d1ce4e5b9
  return <u32>((high ^ low) >> (64 - MEMO_BITS))
}

/** The hash as a word. */
export function hashOfMemory(word: usize, from: usize, length: u32): void {
  if (length != 64) {
    keccak256(HASH, from, length)
    bswapCopy(word, HASH)
    return
  }
  const at = memo + MEMO_BYTES * placeOf(from)
  if (eq(at, from) && eq(at + 32, from + 32)) {
    copy(word, at + 64)
    return
  }
  keccak256(HASH, from, 64)
  copy(at, from)
  copy(at + 32, from + 32)
  bswapCopy(at + 64, HASH)
  copy(word, at + 64)
}
