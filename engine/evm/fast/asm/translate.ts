/**
 * Translates code into a stream (stream.ts): once for an entry that runs again, in one pass, and a second that knows where all stands.
 * Blocks begin at every JUMPDEST and behind every jump and call; what is behind an end is left out up to the next JUMPDEST.
 */
import { C_BYTES, C_LENGTH, C_RUNS, C_STREAM, isFullOfStreams, jumpsOf, takeStream } from './codes'
import { allocate, release } from './heap'
import { hasLeadingZeros, spend } from './machine'
import { flagsOf, gasOf, leastOf, mostOf, pushed, rowOf } from './opcodes'
import {
  I_ADD_SMALL, I_AND_SMALL, I_AND_WORD, I_BLOCK, I_JUMP, I_JUMP_IF, I_JUMP_IF_LT, I_JUMP_IF_SAME, I_JUMP_UNLESS, I_JUMP_UNLESS_LT,
  I_MLOAD_AT, I_MSTORE_AT, I_POPS, I_PUSH_SMALL, I_PUSH_WORD, I_SHL_BY, I_SHR_BY, I_SWAP_POP, PLAIN_BYTES, PRICED_BYTES, T_FIRST,
  T_PLACES, T_RULES, WORD_BYTES,
} from './stream'
import { TELLS_ITSELF } from './trace'

/** Longer code is not translated. */
const MOST_LENGTH: u32 = 1 << 16
/** Of a stream, for a byte of code: a block and a jump that ends it. */
const MOST_BYTES_FOR_ONE: usize = 24
const STACK_BYTES: i32 = 1024 * 32

const POP: u32 = 0x50
const MLOAD: u32 = 0x51
const MSTORE: u32 = 0x52
const JUMP: u32 = 0x56
const JUMPI: u32 = 0x57
const PC: u32 = 0x58
const GAS: u32 = 0x5a
const JUMPDEST: u32 = 0x5b
const PUSH0: u32 = 0x5f
const PUSH32: u32 = 0x7f
const ISZERO: u32 = 0x15

const NEVER: u32 = u32.MAX_VALUE
/** How often code has run before it is translated. */
let streamRuns: u32 = NEVER
export function setStreamRuns(runs: u32): void {
  streamRuns = runs
}

/** Counts a run of the code. Its translation, 0: it runs on its bytes. */
export function streamFor(entry: usize): usize {
  const runs = load<u32>(entry, C_RUNS)
  if (runs < NEVER) store<u32>(entry, runs + 1, C_RUNS)
  if (runs < streamRuns || streamRuns == NEVER) return 0
  const stream = <usize>load<u32>(entry, C_STREAM)
  if (stream != 0 && load<u32>(stream, T_RULES) == u32(hasLeadingZeros)) return stream
  return load<u32>(entry, C_LENGTH) > MOST_LENGTH || isFullOfStreams() ? 0 : translate(entry)
}

// What the pass is at.
let code: usize = 0
let jumps: usize = 0
let length: u32 = 0
/** Where the next instruction goes. */
let out: usize = 0
/** The block that is open, 0: none; its gas, its stack's height from where it began, the least and most. Bytes. */
let block: usize = 0
let blockGas: u32 = 0
let height: i32 = 0
let lowest: i32 = 0
let highest: i32 = 0

function translate(entry: usize): usize {
  length = load<u32>(entry, C_LENGTH)
  spend(length)
  code = entry + C_BYTES
  jumps = jumpsOf(entry)
  const places = (T_PLACES + (<usize>length << 2) + 15) & ~15
  const room = places + (<usize>length + 2) * MOST_BYTES_FOR_ONE + WORD_BYTES
  const draft = allocate(room)
  memory.fill(draft, 0, places)
  out = draft + places
  emitAll(draft)
  const bytes = out - draft
  const stream = takeStream(bytes)
  if (stream != 0) {
    memory.copy(stream, draft, bytes)
    settle(stream, places, bytes)
    store<u32>(stream, u32(hasLeadingZeros), T_RULES)
    store<u32>(stream, <u32>(stream + places), T_FIRST)
    store<u32>(entry, <u32>stream, C_STREAM)
  }
  release(draft, room)
  return stream
}

/** First pass. Where blocks are is noted relative to the draft, where jumps go as a pc. */
function emitAll(draft: usize): void {
  block = 0
  let isDead = false
  let pc: u32 = 0
  while (pc < length) {
    const op = opAt(pc)
    if (op == JUMPDEST) {
      closeBlock()
      store<u32>(draft + T_PLACES + (<usize>pc << 2), <u32>(out - draft))
      isDead = false
    }
    if (isDead) {
      pc = after(pc)
      continue
    }
    if (block == 0) openBlock(pc)
    const next = emitFused(pc)
    const last = next != 0 ? lastOf(pc, next) : op
    if (next != 0) pc = next
    else {
      count(pc)
      emitOne(pc)
      pc = after(pc)
    }
    if (isEnd(last)) {
      closeBlock()
      isDead = !(last == JUMPI || isCall(last))
    }
  }
  if (isDead) return
  if (block == 0) openBlock(pc)
  emit(0, 0)
  closeBlock()
}

// @ts-ignore: decorator
@inline
function opAt(pc: u32): u32 {
  return load<u8>(code + pc)
}
// @ts-ignore: decorator
@inline
function isPush(op: u32): bool {
  return op >= PUSH0 && op <= PUSH32
}
function after(pc: u32): u32 {
  const op = opAt(pc)
  return isPush(op) ? pc + 1 + op - PUSH0 : pc + 1
}
function lastOf(pc: u32, end: u32): u32 {
  let last = pc
  for (let at = pc; at < end; at = after(at)) last = at
  return opAt(last)
}
function isCall(op: u32): bool {
  return op == 0xf0 || op == 0xf1 || op == 0xf2 || op == 0xf4 || op == 0xf5 || op == 0xfa
}
function isEnd(op: u32): bool {
  return op == 0 || op == JUMP || op == JUMPI || isCall(op) || op == 0xf3 || op == 0xfd || op == 0xff || !isDefined(op)
}
/** A row of an opcode that is none has no gas, nothing that it takes, and the whole stack. */
function isDefined(op: u32): bool {
  if (op == 0) return true
  const row = rowOf(op)
  return gasOf(row) != 0 || flagsOf(row) != 0
}

// @ts-ignore: decorator
@inline
function emit(number: u32, word: u32): void {
  store<u32>(out, number)
  store<u32>(out, word, 4)
  out += PLAIN_BYTES
}
/** The gas of the block so far stands where that of the rest will. */
function emitPriced(number: u32, word: u32, next: u32): void {
  emit(number, blockGas)
  emit(word, next)
}

function openBlock(pc: u32): void {
  block = out
  emitPriced(I_BLOCK, 0, pc)
  blockGas = 0
  height = 0
  lowest = 0
  highest = 0
}
function closeBlock(): void {
  if (block == 0) return
  const isPossible = -lowest <= STACK_BYTES && highest <= STACK_BYTES
  store<u32>(block, blockGas, 4)
  store<u16>(block, isPossible ? <u16>-lowest : 0xffff, 8)
  store<u16>(block, isPossible ? <u16>(STACK_BYTES - highest) : 0, 10)
  block = 0
}

/** Adds the opcode's gas and stack to the block. */
function count(pc: u32): void {
  const row = rowOf(opAt(pc))
  const taken = <i32>leastOf(row)
  blockGas += gasOf(row)
  lowest = min(lowest, height - taken)
  // The most that may be on the stack tells what an opcode adds to it.
  height += STACK_BYTES - <i32>mostOf(row)
  highest = max(highest, height)
}
function countAll(pc: u32, end: u32): void {
  for (let at = pc; at < end; at = after(at)) count(at)
}

function emitOne(pc: u32): void {
  const op = opAt(pc)
  if (op == JUMPDEST) return
  if (op == PC) return emit(I_PUSH_SMALL, pc)
  if (isPush(op)) return emitPush(pc)
  if (flagsOf(rowOf(op)) & TELLS_ITSELF) return emitPriced(op, 0, pc + 1)
  emit(op, op == GAS ? blockGas : 0)
}
function emitPush(pc: u32): void {
  if (isSmall(pc)) return emit(I_PUSH_SMALL, small(pc))
  emitWord(I_PUSH_WORD, pc)
}
function emitWord(number: u32, pc: u32): void {
  emit(number, 0)
  pushed(out, code + pc + 1, opAt(pc) - PUSH0)
  out += 32
}

/** A PUSH of a number of 32 bits. */
function isSmall(pc: u32): bool {
  const op = opAt(pc)
  if (!isPush(op)) return false
  const bytes = op - PUSH0
  for (let at: u32 = 1; at + 4 <= bytes; at++) if (load<u8>(code + pc + at) != 0) return false
  return true
}
function small(pc: u32): u32 {
  const end = after(pc)
  let value: u32 = 0
  for (let at = pc + 1; at < end; at++) value = (value << 8) | load<u8>(code + at)
  return value
}
/** A PUSH of a place where a jump may go. */
function isPlace(pc: u32): bool {
  if (!isSmall(pc)) return false
  const to = small(pc)
  return to < length && ((load<u8>(jumps + (to >> 3)) >> <u8>(to & 7)) & 1) != 0
}

/** Several opcodes as one instruction: the pc behind them, 0: none such begin here. */
function emitFused(pc: u32): u32 {
  const op = opAt(pc)
  const second = after(pc)
  if (second >= length) return 0
  const third = after(second)
  let end: u32 = 0
  if (isPush(op)) end = fusePush(pc, second)
  else if (op >= 0x10 && op <= ISZERO) end = fuseTest(op, second)
  else if (op == 0x80) end = fuseSelector(second)
  else if (op == POP && opAt(second) == POP) {
    end = third
    while (end < length && opAt(end) == POP) end++
    countAll(pc, end)
    emit(I_POPS, (end - pc) << 5)
    return end
  } else if (op >= 0x90 && op <= 0x9f && opAt(second) == POP) {
    end = third
    emit(I_SWAP_POP, (op - 0x8f) << 5)
  }
  if (end != 0) countAll(pc, end)
  return end
}

function fusePush(pc: u32, second: u32): u32 {
  const op = opAt(second)
  const end = second + 1
  if (op == JUMP || op == JUMPI) {
    if (!isPlace(pc)) return 0
    emit(op == JUMP ? I_JUMP : I_JUMP_IF, small(pc))
    return end
  }
  if (!isSmall(pc)) {
    if (op != 0x16) return 0
    emitWord(I_AND_WORD, pc)
    return end
  }
  const value = small(pc)
  if (op == 0x01) emit(I_ADD_SMALL, value)
  else if (op == 0x16) emit(I_AND_SMALL, value)
  else if (op == 0x1b && value < 256) emit(I_SHL_BY, value)
  else if (op == 0x1c && value < 256) emit(I_SHR_BY, value)
  else if (op == MLOAD || op == MSTORE) emitAt(pc, second, value)
  else return 0
  return end
}
/** What is paid up to the end of it. */
function emitAt(pc: u32, second: u32, value: u32): void {
  const gas = gasOf(rowOf(opAt(pc))) + gasOf(rowOf(opAt(second)))
  emit(opAt(second) == MLOAD ? I_MLOAD_AT : I_MSTORE_AT, blockGas + gas)
  emit(value, second + 1)
}

/** A comparison, perhaps turned by ISZERO, and a jump. */
function fuseTest(op: u32, second: u32): u32 {
  let push = second
  let isTurned = false
  if (op != ISZERO && opAt(push) == ISZERO) {
    isTurned = true
    push++
  }
  if (push >= length || !isPlace(push)) return 0
  const jump = after(push)
  if (jump >= length || opAt(jump) != JUMPI) return 0
  const number = op == ISZERO ? I_JUMP_UNLESS : (isTurned ? I_JUMP_UNLESS_LT : I_JUMP_IF_LT) + op - 0x10
  emit(number, small(push))
  return jump + 1
}

/** DUP1 PUSH EQ PUSH JUMPI. */
function fuseSelector(value: u32): u32 {
  if (!isSmall(value)) return 0
  const test = after(value)
  const push = test + 1
  if (push >= length || opAt(test) != 0x14 || !isPlace(push)) return 0
  const jump = after(push)
  if (jump >= length || opAt(jump) != JUMPI) return 0
  emit(I_JUMP_IF_SAME, small(push))
  emit(small(value), 0)
  return jump + 1
}

function bytesOf(number: u32): usize {
  if (number == I_BLOCK || number == I_MLOAD_AT || number == I_MSTORE_AT || number == I_JUMP_IF_SAME) return PRICED_BYTES
  if (number == I_PUSH_WORD || number == I_AND_WORD) return WORD_BYTES
  return number < 256 && flagsOf(rowOf(number)) & TELLS_ITSELF ? PRICED_BYTES : PLAIN_BYTES
}

/** Second pass, where it stays: pcs of jumps become blocks, the gas so far becomes that of the rest. */
function settle(stream: usize, places: usize, bytes: usize): void {
  for (let at: usize = T_PLACES; at < places; at += 4) {
    const place = load<u32>(stream + at)
    if (place != 0) store<u32>(stream + at, <u32>stream + place)
  }
  const end = stream + bytes
  let total: u32 = 0
  for (let at = stream + places; at < end; at += bytesOf(load<u32>(at))) {
    const number = load<u32>(at)
    const word = load<u32>(at, 4)
    if (number == I_BLOCK) total = word
    else if (number >= I_JUMP) store<u32>(at, load<u32>(stream + T_PLACES + (<usize>word << 2)), 4)
    else if (number == I_MLOAD_AT || number == I_MSTORE_AT || number == GAS) store<u32>(at, total - word, 4)
    else if (number < 256 && flagsOf(rowOf(number)) & TELLS_ITSELF) store<u32>(at, total - word, 4)
  }
}
