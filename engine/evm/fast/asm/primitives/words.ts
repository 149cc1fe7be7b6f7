/** Conversions between words and bytes. */
import { bswapCopy } from './u256'

const SPREAD: usize = memory.data(32, 16)

/** Writes the low 20 bytes of a word, big endian. */
export function wordToBytes20(to: usize, word: usize): void {
  bswapCopy(SPREAD, word)
  v128.store(to, v128.load(SPREAD, 12))
  store<u32>(to, load<u32>(SPREAD, 28), 16)
}

/** Reads a word from 20 big-endian bytes. */
export function bytes20ToWord(word: usize, from: usize): void {
  v128.store(SPREAD, i64x2.splat(0))
  v128.store(SPREAD, v128.load(from), 12)
  store<u32>(SPREAD, load<u32>(from, 16), 28)
  bswapCopy(word, SPREAD)
}

/** Copies `count` bytes, with zeros beyond the end of a source of `length` bytes. */
export function copyPadded(to: usize, count: u32, from: usize, length: u32, offset: u64): void {
  let taken: u32 = 0
  if (offset < <u64>length) {
    taken = min(length - <u32>offset, count)
    memory.copy(to, from + <usize>offset, taken)
  }
  if (taken < count) memory.fill(to + taken, 0, count - taken)
}
