/**
 * Translates code that runs again into a stream (stream.ts). The first pass writes instructions,
 * the second resolves positions. Blocks start at every JUMPDEST and after every jump and call. Code
 * after an end is skipped up to the next JUMPDEST.
 */
import { C_BYTES, C_LENGTH, C_RUNS, C_STREAM, isFullOfStreams, jumpsOf, takeStream } from '../state/codes'
import { allocate, release } from '../memory/heap'
import {
  after, block, blockGas, closeBlock, count, emit, emitPriced, emitWord, GAS, isPush, isSmall, JUMP, JUMPDEST, JUMPI, lastOf, length,
  opAt, openBlock, out, PC, small, startDraft,
} from './draft'
import { emitFused } from './fuse'
import { hasLeadingZeros, spend } from '../interpreter/machine'
import { flagsOf, gasOf, rowOf } from '../interpreter/opcodes'
import {
  I_AND_WORD, I_BLOCK, I_JUMP, I_JUMP_IF_SAME, I_MLOAD_AT, I_MSTORE_AT, I_PUSH_JUMP, I_PUSH_SMALL, I_PUSH_TWO, I_PUSH_WORD, PLAIN_BYTES,
  PRICED_BYTES, T_FIRST, T_OFFSETS, T_RULES, WORD_BYTES,
} from './stream'
import { EMITS_ITSELF } from '../host/trace'

/** Longer code is not translated. */
const MAX_LENGTH: u32 = 1 << 16
/** Maximum stream bytes for a byte of code: a block and a jump that ends it. */
const MAX_BYTES_FOR_ONE: usize = 24

const NEVER: u32 = u32.MAX_VALUE
/** Runs of code before its translation. */
let streamRuns: u32 = NEVER
export function setStreamRuns(runs: u32): void {
  streamRuns = runs
}

/**
 * Counts a run of the code.
 * @returns the translation; 0 if the code runs on its bytes
 */
export function streamFor(entry: usize): usize {
  const runs = load<u32>(entry, C_RUNS)
  if (runs < NEVER) store<u32>(entry, runs + 1, C_RUNS)
  if (runs < streamRuns || streamRuns == NEVER) return 0
  const stream = <usize>load<u32>(entry, C_STREAM)
  if (stream != 0 && load<u32>(stream, T_RULES) == u32(hasLeadingZeros)) return stream
  return load<u32>(entry, C_LENGTH) > MAX_LENGTH || isFullOfStreams() ? 0 : translate(entry)
}

function translate(entry: usize): usize {
  const length = load<u32>(entry, C_LENGTH)
  const jumps = jumpsOf(entry)
  const offsets = (T_OFFSETS + (<usize>length << 2) + 15) & ~15
  const capacity = offsets + (<usize>length + 2) * MAX_BYTES_FOR_ONE + WORD_BYTES
  const draft = allocate(capacity)
  memory.fill(draft, 0, offsets)
  startDraft(entry + C_BYTES, length, jumps, draft + offsets)
  emitAll(draft)
  const bytes = out - draft
  const stream = takeStream(bytes)
  if (stream != 0) {
    memory.copy(stream, draft, bytes)
    settle(stream, offsets, bytes)
    store<u32>(stream, u32(hasLeadingZeros), T_RULES)
    store<u32>(stream, <u32>(stream + offsets), T_FIRST)
    store<u32>(entry, <u32>stream, C_STREAM)
  }
  release(draft, capacity)
  // The work is charged after the translation is stored, so that a run that ends here has not
  // wasted it.
  spend(length << 1)
  return stream
}

/** First pass: stores block positions relative to the draft, and jump destinations as a pc. */
function emitAll(draft: usize): void {
  let isDead = false
  let pc: u32 = 0
  while (pc < length) {
    const op = opAt(pc)
    if (op == JUMPDEST) {
      closeBlock()
      store<u32>(draft + T_OFFSETS + (<usize>pc << 2), <u32>(out - draft))
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

function isCall(op: u32): bool {
  return op == 0xf0 || op == 0xf1 || op == 0xf2 || op == 0xf4 || op == 0xf5 || op == 0xfa
}
function isEnd(op: u32): bool {
  return op == 0 || op == JUMP || op == JUMPI || isCall(op) || op == 0xf3 || op == 0xfd || op == 0xff || !isDefined(op)
}
/** The row of an undefined opcode has no gas and no flags. */
function isDefined(op: u32): bool {
  if (op == 0) return true
  const row = rowOf(op)
  return gasOf(row) != 0 || flagsOf(row) != 0
}

function emitOne(pc: u32): void {
  const op = opAt(pc)
  if (op == JUMPDEST) return
  if (op == PC) return emit(I_PUSH_SMALL, pc)
  if (isPush(op)) return emitPush(pc)
  if (flagsOf(rowOf(op)) & EMITS_ITSELF) return emitPriced(op, 0, pc + 1)
  emit(op, op == GAS ? blockGas : 0)
}
function emitPush(pc: u32): void {
  if (isSmall(pc)) return emit(I_PUSH_SMALL, small(pc))
  emitWord(I_PUSH_WORD, pc)
}

function bytesOf(number: u32): usize {
  if (number == I_BLOCK || number == I_MLOAD_AT || number == I_MSTORE_AT) return PRICED_BYTES
  if (number == I_PUSH_TWO || number == I_PUSH_JUMP || number == I_JUMP_IF_SAME) return PRICED_BYTES
  if (number == I_PUSH_WORD || number == I_AND_WORD) return WORD_BYTES
  return number < 256 && flagsOf(rowOf(number)) & EMITS_ITSELF ? PRICED_BYTES : PLAIN_BYTES
}

/**
 * Second pass, at the final address: jump destinations become blocks, and gas so far becomes gas of
 * the rest.
 */
function settle(stream: usize, offsets: usize, bytes: usize): void {
  for (let at: usize = T_OFFSETS; at < offsets; at += 4) {
    const offset = load<u32>(stream + at)
    if (offset != 0) store<u32>(stream + at, <u32>stream + offset)
  }
  const end = stream + bytes
  let total: u32 = 0
  for (let at = stream + offsets; at < end; at += bytesOf(load<u32>(at))) {
    const number = load<u32>(at)
    const word = load<u32>(at, 4)
    if (number == I_BLOCK) total = word
    else if (number >= I_JUMP) store<u32>(at, load<u32>(stream + T_OFFSETS + (<usize>word << 2)), 4)
    else if (number == I_MLOAD_AT || number == I_MSTORE_AT || number == GAS) store<u32>(at, total - word, 4)
    else if (number < 256 && flagsOf(rowOf(number)) & EMITS_ITSELF) store<u32>(at, total - word, 4)
  }
}
