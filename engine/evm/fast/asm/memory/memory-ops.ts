/**
 * Opcodes that read and write memory: price, then growth, then work. A handler returns false if the
 * frame halts.
 */
import { codeOf, C_BYTES } from '../state/codes'
import { areaOf } from './heap'
import { F_CODE, F_CODE_LENGTH, F_INPUT, F_INPUT_LENGTH, F_MEMORY, F_SIZE, grow, RETURN } from '../frames/frames'
import { charge, fail, HALT_OVERFLOW, HALT_PRICE_OVERFLOW, HALT_RETURN_BOUNDS, returnLength, spend } from '../interpreter/machine'
import { hashOfMemory } from './hash'
import { chargeAccess } from '../state/state-ops'
import { account } from '../state/accounts'
import { emit } from '../host/trace'
import { byteLen, bswapCopy, exp, hi3 } from '../primitives/u256'
import { copyPadded } from '../primitives/words'

/** Marks an end of memory beyond 64 bits. */
export const BEYOND: u64 = u64.MAX_VALUE
const MAX_END: u64 = u64.MAX_VALUE - 31
/** go-ethereum's limit, above which the square of the word count exceeds 64 bits. */
const MAX_MEMORY: u64 = 0x1fffffffe0
export const TOO_MUCH: u64 = u64.MAX_VALUE

/** Computes the end of memory from two words; a length of 0 ends at 0. */
export function endOf(offset: usize, length: usize): u64 {
  const count = load<u64>(length)
  if (hi3(length) != 0) return BEYOND
  if (count == 0) return 0
  return endOfCount(offset, count)
}
// @ts-ignore: decorator
@inline
export function endOfCount(offset: usize, count: u64): u64 {
  const end = load<u64>(offset) + count
  return hi3(offset) != 0 || end < count || end > MAX_END ? BEYOND : end
}

/** Computes the gas for memory up to `end`; TOO_MUCH beyond go-ethereum's limit. */
// @ts-ignore: decorator
@inline
export function priceOfMemory(frame: usize, end: u64): u64 {
  return end <= <u64>load<u32>(frame, F_SIZE) ? 0 : priceOfGrowth(frame, end)
}
function priceOfGrowth(frame: usize, end: u64): u64 {
  if (end > MAX_MEMORY) return TOO_MUCH
  const words = (end + 31) >> 5
  const had = <u64>load<u32>(frame, F_SIZE) >> 5
  return 3 * (words - had) + ((words * words) >> 9) - ((had * had) >> 9)
}

// @ts-ignore: decorator
@inline
function wordsIn(length: u64): u64 {
  return (length + 31) >> 5
}

/** Charges memory up to `end` and `more` gas. */
function payMemory(frame: usize, end: u64, more: u64): bool {
  if (end == BEYOND) return fail(HALT_OVERFLOW)
  const price = priceOfMemory(frame, end)
  if (price == TOO_MUCH) return fail(HALT_PRICE_OVERFLOW)
  return charge(price + more)
}

/**
 * Charges and grows memory for `count` bytes at the offset on top of the stack.
 * @returns false if the frame halts
 */
export function touchMemory<T>(frame: usize, sp: usize, count: u64): bool {
  const end = endOfCount(sp, count)
  if (!payMemory(frame, end, 0)) return false
  emit<T>(frame)
  grow(frame, end)
  return true
}

/**
 * Charges and grows the memory of RETURN and REVERT. Its bytes are copied twice: to the return area
 * and to the caller's memory.
 */
export function outputMemory<T>(frame: usize, sp: usize): bool {
  const end = endOf(sp, sp + 32)
  if (!payMemory(frame, end, 0)) return false
  emit<T>(frame)
  grow(frame, end)
  spend(<u32>load<u64>(sp, 32) >> 5)
  return true
}

export function opKeccak<T>(frame: usize, sp: usize): bool {
  const end = endOf(sp, sp + 32)
  const length = load<u64>(sp, 32)
  if (!payMemory(frame, end, 6 * wordsIn(length))) return false
  emit<T>(frame)
  grow(frame, end)
  spend(<u32>length >> 1)
  const from: usize = length == 0 ? 0 : <usize>load<u32>(frame, F_MEMORY) + <usize>load<u64>(sp)
  hashOfMemory(sp + 32, from, <u32>length)
  return true
}

/** Charges a copy: its memory at `to` and `length`, both words on the stack. */
function payCopy<T>(frame: usize, to: usize, length: usize): bool {
  const end = endOf(to, length)
  const count = load<u64>(length)
  if (!payMemory(frame, end, 3 * wordsIn(count))) return false
  emit<T>(frame)
  return true
}

function copyIn(frame: usize, sp: usize, from: usize, available: u32): void {
  const count = <u32>load<u64>(sp, 64)
  if (count == 0) return
  grow(frame, load<u64>(sp) + count)
  spend(count >> 6)
  const offset = hi3(sp + 32) != 0 ? u64.MAX_VALUE : load<u64>(sp, 32)
  copyPadded(<usize>load<u32>(frame, F_MEMORY) + <usize>load<u64>(sp), count, from, available, offset)
}

export function opCalldataCopy<T>(frame: usize, sp: usize): bool {
  if (!payCopy<T>(frame, sp, sp + 64)) return false
  copyIn(frame, sp, load<u32>(frame, F_INPUT), load<u32>(frame, F_INPUT_LENGTH))
  return true
}

export function opCodeCopy<T>(frame: usize, sp: usize): bool {
  if (!payCopy<T>(frame, sp, sp + 64)) return false
  copyIn(frame, sp, load<u32>(frame, F_CODE), load<u32>(frame, F_CODE_LENGTH))
  return true
}

export function opReturnDataCopy<T>(frame: usize, sp: usize): bool {
  if (!payCopy<T>(frame, sp, sp + 64)) return false
  const offset = load<u64>(sp, 32)
  const end = offset + load<u64>(sp, 64)
  if (hi3(sp + 32) != 0 || end < offset || end > <u64>returnLength) return fail(HALT_RETURN_BOUNDS)
  copyIn(frame, sp, areaOf(RETURN), returnLength)
  return true
}

export function opExtCodeCopy<T>(frame: usize, sp: usize): bool {
  const to = sp + 32
  const end = endOf(to, sp + 96)
  if (end == BEYOND) return fail(HALT_OVERFLOW)
  const price = priceOfMemory(frame, end)
  if (price == TOO_MUCH) return fail(HALT_PRICE_OVERFLOW)
  if (!chargeAccess(sp, price + 3 * wordsIn(load<u64>(sp, 96)))) return false
  emit<T>(frame)
  const entry = codeOf(account(sp))
  copyIn(frame, to, entry + C_BYTES, load<u32>(entry))
  return true
}

export function opMemoryCopy<T>(frame: usize, sp: usize): bool {
  const to = endOf(sp, sp + 64)
  const from = endOf(sp + 32, sp + 64)
  const end = max(to, from)
  const count = load<u64>(sp, 64)
  if (!payMemory(frame, end, 3 * wordsIn(count))) return false
  emit<T>(frame)
  if (count == 0) return true
  grow(frame, end)
  spend(<u32>count >> 6)
  const base = <usize>load<u32>(frame, F_MEMORY)
  memory.copy(base + <usize>load<u64>(sp), base + <usize>load<u64>(sp, 32), <usize>count)
  return true
}

export function opExp<T>(frame: usize, sp: usize): bool {
  const bytes = <u32>byteLen(sp + 32)
  if (!charge(10 + 50 * <u64>bytes)) return false
  emit<T>(frame)
  spend(bytes << 4)
  exp(sp + 32, sp, sp + 32)
  return true
}

export function opCalldataLoad(frame: usize, sp: usize): void {
  const offset = hi3(sp) != 0 ? u64.MAX_VALUE : load<u64>(sp)
  copyPadded(sp, 32, load<u32>(frame, F_INPUT), load<u32>(frame, F_INPUT_LENGTH), offset)
  bswapCopy(sp, sp)
}
