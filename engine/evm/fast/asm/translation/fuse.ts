/**
 * Fuses several opcodes to one instruction. Gas and stack use are still counted opcode by opcode.
 */
import {
  ADD, after, AND, blockGas, code, countAll, emit, emitWord, isJumpTarget, isPush, isSmall, ISZERO, JUMP, JUMPDEST, JUMPI, length, MLOAD, MSTORE,
  NOT, opAt, out, POP, skip, small, SWAP1,
} from './draft'
import { gasOf, rowOf } from '../interpreter/opcodes'
import {
  I_ADD_SMALL, I_AND_SMALL, I_AND_WORD, I_DUP_ADD, I_DUP_AND, I_DUP_TWO, I_JUMP, I_JUMP_IF, I_JUMP_IF_LT, I_JUMP_IF_SAME,
  I_JUMP_UNLESS, I_JUMP_UNLESS_LT, I_MLOAD_AT, I_MSTORE_AT, I_POPS, I_POPS_JUMP, I_PUSH_JUMP, I_PUSH_TWO, I_PUSH_UNDER, I_PUSH_WORD,
  I_SHL_BY, I_SHR_BY, I_SWAP_POP, I_SWAPS_POP,
} from './stream'
import { set64, shl, sub } from '../primitives/u256'

const ONE: usize = memory.data(32, 16)

/**
 * Writes one instruction for several opcodes.
 * @returns the pc after them; 0 if no such sequence starts at `pc`
 */
export function emitFused(pc: u32): u32 {
  const op = opAt(pc)
  const second = after(pc)
  if (second >= length) return 0
  let end: u32 = 0
  if (isPush(op)) end = fusePush(pc, second)
  else if (op >= 0x10 && op <= ISZERO) end = fuseTest(op, second)
  else if (isDup(op)) end = fuseDup(op, second)
  else if (op == POP) return fusePops(pc)
  else if (op >= 0x90 && op <= 0x9f) end = fuseSwap(op, second)
  if (end != 0) countAll(pc, end)
  return end
}

function fuseSwap(op: u32, second: u32): u32 {
  const next = opAt(second)
  const from = (op - 0x8f) << 5
  if (next == POP) emit(I_SWAP_POP, from)
  else if (op > 0x90 && next == op - 1 && second + 1 < length && opAt(second + 1) == POP) {
    emit(I_SWAPS_POP, from)
    return second + 2
  } else return 0
  return second + 1
}

/** Fuses POPs and a JUMP after them. */
function fusePops(pc: u32): u32 {
  let end = pc
  while (end < length && opAt(end) == POP) end++
  const pops = end - pc
  if (end < length && opAt(end) == JUMP) emit(I_POPS_JUMP, pops << 5)
  else if (pops > 1) emit(I_POPS, pops << 5)
  else return 0
  if (opAt(end) == JUMP && end < length) end++
  countAll(pc, end)
  return end
}

function isDup(op: u32): bool {
  return op >= 0x80 && op <= 0x8f
}
function fuseDup(op: u32, second: u32): u32 {
  const selector = op == 0x80 ? fuseSelector(second) : 0
  if (selector != 0) return selector
  const other = opAt(second)
  const from = (op - 0x80) << 5
  if (other == ADD) emit(I_DUP_ADD, from)
  else if (other == AND) emit(I_DUP_AND, from)
  else if (isDup(other)) {
    // Both offsets count from the new top. The second DUP may copy the word that the first pushed.
    emit(I_DUP_TWO, (from + 64) | (((other - 0x80 + 1) << 5) << 16))
  } else return 0
  return second + 1
}

/**
 * Fuses PUSH1 1 PUSH1 1 PUSH1 n SHL SUB, the compiler's mask of n bits, and an AND after it.
 * @returns the pc after them; 0 for another sequence
 */
function fuseMask(pc: u32): u32 {
  if (!isMask(pc)) return 0
  const isAnd = pc + 8 < length && opAt(pc + 8) == AND
  emit(isAnd ? I_AND_WORD : I_PUSH_WORD, 0)
  set64(ONE, 1)
  shl(out, ONE, load<u8>(code + pc + 5))
  sub(out, out, ONE)
  skip(32)
  return isAnd ? pc + 9 : pc + 8
}

function isMask(pc: u32): bool {
  if (pc + 8 > length || load<u32>(code + pc) != 0x01600160) return false
  return opAt(pc + 4) == 0x60 && load<u16>(code + pc + 6) == 0x031b
}

function emitNot(pc: u32, end: u32): u32 {
  const word = out + 8
  emitWord(I_PUSH_WORD, pc)
  v128.store(word, v128.not(v128.load(word)))
  v128.store(word, v128.not(v128.load(word, 16)), 16)
  return end
}

function fusePush(pc: u32, second: u32): u32 {
  const mask = fuseMask(pc)
  if (mask != 0) return mask
  const op = opAt(second)
  const end = second + 1
  if (op == JUMP || op == JUMPI) {
    if (!isJumpTarget(pc)) return 0
    emit(op == JUMP ? I_JUMP : I_JUMP_IF, small(pc))
    return end
  }
  if (op == NOT) return emitNot(pc, end)
  if (!isSmall(pc)) {
    if (op != AND) return 0
    emitWord(I_AND_WORD, pc)
    return end
  }
  const value = small(pc)
  if (op == ADD) emit(I_ADD_SMALL, value)
  else if (op == AND) emit(I_AND_SMALL, value)
  else if (op == 0x1b && value < 256) emit(I_SHL_BY, value)
  else if (op == 0x1c && value < 256) emit(I_SHR_BY, value)
  else if (op == SWAP1) emit(I_PUSH_UNDER, value)
  else if (op == MLOAD || op == MSTORE) emitAt(pc, second, value)
  else if (isSmall(second)) return fuseTwo(value, second)
  else return 0
  return end
}
/** Fuses two PUSHes, unless the second starts a sequence of its own. */
function fuseTwo(value: u32, second: u32): u32 {
  const end = after(second)
  if (end >= length) return 0
  const op = opAt(end)
  if (op == JUMP && isJumpTarget(second)) {
    emit(I_PUSH_JUMP, small(second))
    emit(value, 0)
    return end + 1
  }
  if (!isPush(op) && !isDup(op) && op != JUMPDEST) return 0
  if (isMask(second)) return 0
  emit(I_PUSH_TWO, value)
  emit(small(second), 0)
  return end
}
/** Writes a load or store at a constant offset, with the block's gas up to its end. */
function emitAt(pc: u32, second: u32, value: u32): void {
  const gas = gasOf(rowOf(opAt(pc))) + gasOf(rowOf(opAt(second)))
  emit(opAt(second) == MLOAD ? I_MLOAD_AT : I_MSTORE_AT, blockGas + gas)
  emit(value, second + 1)
}

/** Fuses a comparison, an optional ISZERO and a jump. */
function fuseTest(op: u32, second: u32): u32 {
  let push = second
  let isTurned = false
  if (op != ISZERO && opAt(push) == ISZERO) {
    isTurned = true
    push++
  }
  if (push >= length || !isJumpTarget(push)) return 0
  const jump = after(push)
  if (jump >= length || opAt(jump) != JUMPI) return 0
  const number = op == ISZERO ? I_JUMP_UNLESS : (isTurned ? I_JUMP_UNLESS_LT : I_JUMP_IF_LT) + op - 0x10
  emit(number, small(push))
  return jump + 1
}

/** Fuses DUP1 PUSH EQ PUSH JUMPI. */
function fuseSelector(value: u32): u32 {
  if (!isSmall(value)) return 0
  const test = after(value)
  const push = test + 1
  if (push >= length || opAt(test) != 0x14 || !isJumpTarget(push)) return 0
  const jump = after(push)
  if (jump >= length || opAt(jump) != JUMPI) return 0
  emit(I_JUMP_IF_SAME, small(push))
  emit(small(value), 0)
  return jump + 1
}
