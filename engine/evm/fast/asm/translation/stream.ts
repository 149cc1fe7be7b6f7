/**
 * The stream is the form of translated code. An instruction has whole 8 bytes: a number (an
 * opcode's or one of those below) and operands. An instruction with dynamic gas has 16 bytes. They
 * are number, constant gas of the rest of the block, a word of its own, and the next pc.
 */
export const I_BLOCK: u32 = 0x100
export const I_PUSH_SMALL: u32 = 0x101
export const I_PUSH_WORD: u32 = 0x102
export const I_MLOAD_AT: u32 = 0x108
export const I_MSTORE_AT: u32 = 0x109
export const I_ADD_SMALL: u32 = 0x10a
export const I_AND_SMALL: u32 = 0x10b
export const I_AND_WORD: u32 = 0x10c
export const I_SHL_BY: u32 = 0x10d
export const I_SHR_BY: u32 = 0x10e
export const I_POPS: u32 = 0x10f
export const I_SWAP_POP: u32 = 0x110
export const I_PUSH_TWO: u32 = 0x103
/** PUSH and SWAP1. */
export const I_PUSH_UNDER: u32 = 0x104
/** Two DUPs; a DUP and AND; a DUP and ADD. */
export const I_DUP_TWO: u32 = 0x105
export const I_DUP_AND: u32 = 0x107
export const I_DUP_ADD: u32 = 0x106
/** SWAP, the SWAP of one less, POP. */
export const I_SWAPS_POP: u32 = 0x111
/** Any number of POPs, and JUMP. */
export const I_POPS_JUMP: u32 = 0x112
/**
 * Jumps to a known destination: unconditional, after a PUSH, if a word is not zero, if a word is
 * zero.
 */
export const I_JUMP: u32 = 0x113
export const I_PUSH_JUMP: u32 = 0x114
export const I_JUMP_IF: u32 = 0x115
export const I_JUMP_UNLESS: u32 = 0x116
/** LT, GT, SLT, SGT, EQ and a jump; the second row has an ISZERO before the jump. */
export const I_JUMP_IF_LT: u32 = 0x117
export const I_JUMP_UNLESS_LT: u32 = 0x11c
/** DUP1, PUSH, EQ and a jump, the form in which contracts select a function. */
export const I_JUMP_IF_SAME: u32 = 0x121

export const PLAIN_BYTES: usize = 8
export const PRICED_BYTES: usize = 16
export const WORD_BYTES: usize = 40

/**
 * Header of a translation: its rules and its first instruction. For each pc the block that a jump
 * to it runs follows, or 0.
 */
export const T_RULES: usize = 0
export const T_FIRST: usize = 4
export const T_OFFSETS: usize = 16

/** True in the loop on streams. */
// @ts-ignore: decorator
@inline
export function isStream<T>(): bool {
  return sizeof<T>() == 4
}

/** Bytes of an instruction without dynamic gas. */
// @ts-ignore: decorator
@inline
export function plain<T>(): usize {
  return isStream<T>() ? PLAIN_BYTES : 1
}

// @ts-ignore: decorator
@inline
export function priced<T>(): usize {
  return isStream<T>() ? PRICED_BYTES : 1
}

/**
 * Gas of the block's opcodes after this one. It is already charged, so the frame has that much
 * more.
 */
// @ts-ignore: decorator
@inline
export function rest<T>(ip: usize): i64 {
  return isStream<T>() ? <i64>load<u32>(ip, 4) : 0
}

/** True if the remaining gas does not cover the rest of the block. */
// @ts-ignore: decorator
@inline
export function isShort<T>(left: i64): bool {
  return isStream<T>() && left < 0
}
