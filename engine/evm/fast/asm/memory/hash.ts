/**
 * Hashes memory, with a cache for inputs of 64 bytes, because contracts compute the same mapping
 * slots repeatedly.
 */
import { allocate } from './heap'
import { keccak256 } from '../primitives/keccak'
import { bswapCopy, copy, eq } from '../primitives/u256'

const HASH: usize = memory.data(32, 16)
/** Size of a cache entry: 64 bytes of input and their hash as a word. */
const MEMO_BYTES: usize = 96
const MEMO_BITS: u32 = 10
let memo: usize = 0

export function makeMemo(): void {
  const bytes = MEMO_BYTES << MEMO_BITS
  memo = allocate(bytes)
  memory.fill(memo, 0, bytes)
  // The entry of 64 zeros gets other content, so that an empty entry does not match them.
  store<u64>(memo + MEMO_BYTES * memoIndexOf(memo + 64), 1)
}

function memoIndexOf(from: usize): u32 {
  const high = (load<u64>(from, 12) ^ load<u64>(from, 24)) * 0x9e3779b97f4a7c15
  const low = (load<u64>(from, 44) ^ load<u64>(from, 56)) * 0xbf58476d1ce4e5b9
  return <u32>((high ^ low) >> (64 - MEMO_BITS))
}

/** Writes the hash as a word. */
export function hashOfMemory(word: usize, from: usize, length: u32): void {
  if (length != 64) {
    keccak256(HASH, from, length)
    bswapCopy(word, HASH)
    return
  }
  const at = memo + MEMO_BYTES * memoIndexOf(from)
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
