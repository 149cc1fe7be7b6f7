/** Reads code for a translation, and writes the stream block by block. */
import { gasOf, minStackOf, maxStackOf, pushed, rowOf } from '../interpreter/opcodes'
import { I_BLOCK, PLAIN_BYTES } from './stream'

export const ADD: u32 = 0x01
export const AND: u32 = 0x16
export const NOT: u32 = 0x19
export const POP: u32 = 0x50
export const MLOAD: u32 = 0x51
export const MSTORE: u32 = 0x52
export const JUMP: u32 = 0x56
export const JUMPI: u32 = 0x57
export const PC: u32 = 0x58
export const GAS: u32 = 0x5a
export const JUMPDEST: u32 = 0x5b
export const PUSH0: u32 = 0x5f
export const PUSH32: u32 = 0x7f
export const SWAP1: u32 = 0x90
export const ISZERO: u32 = 0x15
const STACK_BYTES: i32 = 1024 * 32

// Code, jump bitmap and length of the current translation.
export let code: usize = 0
export let jumps: usize = 0
export let length: u32 = 0
/** Position of the next instruction. */
export let out: usize = 0
/**
 * The open block, 0 if there is none, and its gas. Stack height, minimum and maximum are in bytes
 * from the block's start.
 */
export let block: usize = 0
export let blockGas: u32 = 0
export let height: i32 = 0
export let lowest: i32 = 0
export let highest: i32 = 0

/** Starts a translation of an entry's code, written to `to`. */
export function startDraft(bytes: usize, count: u32, bitmap: usize, to: usize): void {
  code = bytes
  length = count
  jumps = bitmap
  out = to
  block = 0
}

// @ts-ignore: decorator
@inline
export function opAt(pc: u32): u32 {
  return load<u8>(code + pc)
}
// @ts-ignore: decorator
@inline
export function isPush(op: u32): bool {
  return op >= PUSH0 && op <= PUSH32
}
export function after(pc: u32): u32 {
  const op = opAt(pc)
  return isPush(op) ? pc + 1 + op - PUSH0 : pc + 1
}
export function lastOf(pc: u32, end: u32): u32 {
  let last = pc
  for (let at = pc; at < end; at = after(at)) last = at
  return opAt(last)
}
// @ts-ignore: decorator
@inline
export function emit(number: u32, word: u32): void {
  store<u32>(out, number)
  store<u32>(out, word, 4)
  out += PLAIN_BYTES
}
export function skip(bytes: usize): void {
  out += bytes
}
/** Writes the block's gas so far; `settle` replaces it with the gas of the rest. */
export function emitPriced(number: u32, word: u32, next: u32): void {
  emit(number, blockGas)
  emit(word, next)
}

export function openBlock(pc: u32): void {
  block = out
  emitPriced(I_BLOCK, 0, pc)
  blockGas = 0
  height = 0
  lowest = 0
  highest = 0
}
export function closeBlock(): void {
  if (block == 0) return
  const isPossible = -lowest <= STACK_BYTES && highest <= STACK_BYTES
  store<u32>(block, blockGas, 4)
  store<u16>(block, isPossible ? <u16>-lowest : 0xffff, 8)
  store<u16>(block, isPossible ? <u16>(STACK_BYTES - highest) : 0, 10)
  block = 0
}

/** Adds the opcode's gas and stack use to the block. */
export function count(pc: u32): void {
  const row = rowOf(opAt(pc))
  const taken = <i32>minStackOf(row)
  blockGas += gasOf(row)
  lowest = min(lowest, height - taken)
  // STACK_BYTES minus the opcode's maximum stack is the number of bytes that the opcode adds.
  height += STACK_BYTES - <i32>maxStackOf(row)
  highest = max(highest, height)
}
export function countAll(pc: u32, end: u32): void {
  for (let at = pc; at < end; at = after(at)) count(at)
}

export function emitWord(number: u32, pc: u32): void {
  emit(number, 0)
  pushed(out, code + pc + 1, opAt(pc) - PUSH0)
  out += 32
}

/** True for a PUSH of a 32-bit number. */
export function isSmall(pc: u32): bool {
  const op = opAt(pc)
  if (!isPush(op)) return false
  const bytes = op - PUSH0
  for (let at: u32 = 1; at + 4 <= bytes; at++) if (load<u8>(code + pc + at) != 0) return false
  return true
}
export function small(pc: u32): u32 {
  const end = after(pc)
  let value: u32 = 0
  for (let at = pc + 1; at < end; at++) value = (value << 8) | load<u8>(code + at)
  return value
}
/** True for a PUSH of a valid jump destination. */
export function isJumpTarget(pc: u32): bool {
  if (!isSmall(pc)) return false
  const to = small(pc)
  return to < length && ((load<u8>(jumps + (to >> 3)) >> <u8>(to & 7)) & 1) != 0
}
