/** The rows of opcodes that the host writes, and the words of PUSH opcodes. */
import { rev } from '../primitives/u256'

/**
 * A row of 8 bytes for each opcode: constant gas, minimum and maximum bytes on the stack, flags
 * (host/trace.ts).
 */
export const OPCODES: usize = memory.data(256 * 8, 8)
/** Masks of PUSH0 to PUSH32. */
const MASKS: usize = memory.data(33 * 32, 16)

export function makeMasks(): void {
  for (let bytes: usize = 1; bytes <= 32; bytes++) memory.fill(MASKS + (bytes << 5), 0xff, bytes)
}

// @ts-ignore: decorator
@inline
export function rowOf(op: u32): u64 {
  return load<u64>(OPCODES + (<usize>op << 3))
}

// @ts-ignore: decorator
@inline
export function minStackOf(row: u64): u32 {
  return <u32>(row >> 16) & 0xffff
}

// @ts-ignore: decorator
@inline
export function maxStackOf(row: u64): u32 {
  return <u32>(row >> 32) & 0xffff
}

// @ts-ignore: decorator
@inline
export function gasOf(row: u64): u32 {
  return <u32>row & 0xffff
}

// @ts-ignore: decorator
@inline
export function flagsOf(row: u64): u32 {
  return <u32>(row >> 48)
}

/**
 * Reads the word of a PUSH whose `count` bytes start at `at`. The 32 bytes that end with the
 * operand are loaded, and those before are masked. Zeros or other code precede the operand, so that
 * the load is always valid.
 */
// @ts-ignore: decorator
@inline
export function pushed(to: usize, at: usize, count: usize): void {
  const mask = MASKS + (count << 5)
  v128.store(to, v128.and(rev(v128.load(at + count - 16)), v128.load(mask)))
  v128.store(to, v128.and(rev(v128.load(at + count - 32)), v128.load(mask, 16)), 16)
}
