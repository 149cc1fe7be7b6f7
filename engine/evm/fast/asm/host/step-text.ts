/**
 * Steps as text in the JSON form of go-ethereum's struct logger. A chunk of memory goes to the host
 * when it is full, and at the end of a run. It also goes before a step that the host receives by
 * itself. The host provides the constant parts (step-texts.ts).
 */
import { F_CODE, F_IP, F_MEMORY, F_SIZE, F_SP, F_STACK, RETURN } from '../frames/frames'
import { allocate, areaOf } from '../memory/heap'
import { hostPoll, hostText } from './imports'
import { depth, gas, refund, returnLength } from '../interpreter/machine'
import { gasOf, rowOf } from '../interpreter/opcodes'
import { hi3, leadingZeros, rev } from '../primitives/u256'

/** Optional fields of a step. */
export const SHOWS_STACK: u32 = 1
export const SHOWS_RETURN_DATA: u32 = 2
export const SHOWS_MEMORY: u32 = 4

/** Constant parts of 48 bytes with the length in the last byte. Those of the opcodes come first. */
export const TEXTS: usize = memory.data(263 * 48, 16)
const TEXT_PC: u32 = 256
const TEXT_COST: u32 = 257
const TEXT_DEPTH: u32 = 258
const TEXT_STACK: u32 = 259
const TEXT_RETURN_DATA: u32 = 260
const TEXT_MEMORY: u32 = 261
const TEXT_REFUND: u32 = 262

const QUOTE: u32 = 0x22
const COMMA: u32 = 0x2c
const CLOSE_LIST: u32 = 0x5d
const CLOSE_STEP: u32 = 0x7d
/** A quote, 0 and x. */
const OPEN_HEX: u32 = 0x783022

const CHUNK_BYTES: usize = 1 << 16
/** Upper limit of bytes written between two checks for space. */
const MARGIN: usize = 512
/**
 * Buffer for digits whose count is not known beforehand. Copies take more bytes than digits, and
 * later text overwrites the excess.
 */
const DIGITS: usize = memory.data(128, 16)

let chunk: usize = 0
/** Position after the text. */
let end: usize = 0
/** Number of steps that start in the chunk. */
let steps: u32 = 0

export function makeChunk(): void {
  if (chunk == 0) chunk = allocate(CHUNK_BYTES)
  dropText()
}

/** Drops text of a run that was ended from outside. */
export function dropText(): void {
  end = chunk
  steps = 0
}

export function flushText(): void {
  if (end == chunk) return
  const length = <u32>(end - chunk)
  const count = steps
  dropText()
  hostText(chunk, length, count)
}

/** Returns a position with space for MARGIN bytes: `to`, or the chunk's start after a flush. */
// @ts-ignore: decorator
@inline
function spaceAt(to: usize): usize {
  return to + MARGIN > chunk + CHUNK_BYTES ? flushAt(to) : to
}
function flushAt(to: usize): usize {
  end = to
  flushText()
  hostPoll()
  return chunk
}

/**
 * Writes a step.
 * @param before gas before the opcode, whose cost is already charged
 */
export function writeStep(frame: usize, op: u32, before: i64, fields: u32): void {
  let to = spaceAt(end)
  steps++
  to = decimal(put(to, TEXT_PC), <u64>(load<u32>(frame, F_IP) - load<u32>(frame, F_CODE)))
  to = decimal(put(to, op), <u64>before)
  const spent = before - gas
  to = decimal(put(to, TEXT_COST), spent == 0 ? <u64>gasOf(rowOf(op)) : <u64>spent)
  to = decimal(put(to, TEXT_DEPTH), <u64>(depth + 1))
  if (fields & SHOWS_STACK) to = writeStack(to, load<u32>(frame, F_STACK), load<u32>(frame, F_SP))
  if ((fields & SHOWS_RETURN_DATA) != 0 && returnLength > 0) to = writeReturnData(to)
  if ((fields & SHOWS_MEMORY) != 0 && load<u32>(frame, F_SIZE) > 0) to = writeMemory(to, load<u32>(frame, F_MEMORY), load<u32>(frame, F_SIZE))
  if (refund != 0) to = decimal(put(spaceAt(to), TEXT_REFUND), <u64>refund)
  end = byte(to, CLOSE_STEP)
}

/** Writes the stack with its top last. */
function writeStack(start: usize, stack: usize, sp: usize): usize {
  let to = put(start, TEXT_STACK)
  for (let word = stack - 32; word >= sp; word -= 32) {
    to = spaceAt(to)
    if (word != stack - 32) to = byte(to, COMMA)
    store<u32>(to, OPEN_HEX)
    to = byte(quantity(to + 3, word), QUOTE)
  }
  return byte(to, CLOSE_LIST)
}

function writeReturnData(start: usize): usize {
  let to = put(spaceAt(start), TEXT_RETURN_DATA)
  let from = areaOf(RETURN)
  const last = from + <usize>returnLength
  for (; from + 16 <= last; from += 16) {
    to = spaceAt(to)
    hex16(to, v128.load(from))
    to += 32
  }
  to = spaceAt(to)
  if (from < last) {
    memory.copy(DIGITS, from, last - from)
    hex16(to, v128.load(DIGITS))
    to += (last - from) << 1
  }
  return byte(to, QUOTE)
}

/** Writes the memory as a list of words. */
function writeMemory(start: usize, from: usize, size: u32): usize {
  let to = put(spaceAt(start), TEXT_MEMORY)
  const last = from + <usize>size
  for (let word = from; word < last; word += 32) {
    to = spaceAt(to)
    if (word != from) to = byte(to, COMMA)
    store<u32>(to, OPEN_HEX)
    hex16(to + 3, v128.load(word))
    hex16(to + 35, v128.load(word, 16))
    to = byte(to + 67, QUOTE)
  }
  return byte(to, CLOSE_LIST)
}

// @ts-ignore: decorator
@inline
function byte(to: usize, value: u32): usize {
  store<u8>(to, value)
  return to + 1
}

/** Copies a constant part. */
// @ts-ignore: decorator
@inline
function put(to: usize, which: u32): usize {
  const text = TEXTS + <usize>which * 48
  v128.store(to, v128.load(text))
  v128.store(to, v128.load(text, 16), 16)
  v128.store(to, v128.load(text, 32), 32)
  return to + <usize>load<u8>(text, 47)
}

function decimal(to: usize, number: u64): usize {
  let at = DIGITS + 32
  let value = number
  while (value > 0xffffffff) {
    const tenth = value / 10
    store<u8>(--at, 0x30 + (value - tenth * 10))
    value = tenth
  }
  let low = <u32>value
  do {
    const tenth = low / 10
    store<u8>(--at, 0x30 + (low - tenth * 10))
    low = tenth
  } while (low != 0)
  v128.store(to, v128.load(at))
  v128.store(to, v128.load(at, 16), 16)
  return to + (DIGITS + 32 - at)
}

/** Writes a word in hex without leading zeros; 0 is one digit. */
function quantity(to: usize, word: usize): usize {
  if (hi3(word) == 0) {
    const value = load<u64>(word)
    if (value < 16) return byte(to, hexDigit(<u32>value))
    hex16(DIGITS, rev(v128.load(word)))
    const zeros = <usize>(clz<u64>(value) >> 2)
    v128.store(to, v128.load(DIGITS + 16 + zeros))
    return to + 16 - zeros
  }
  hex16(DIGITS, rev(v128.load(word, 16)))
  hex16(DIGITS + 32, rev(v128.load(word)))
  const zeros = <usize>(leadingZeros(word) >> 2)
  const from = DIGITS + zeros
  v128.store(to, v128.load(from))
  v128.store(to, v128.load(from, 16), 16)
  v128.store(to, v128.load(from, 32), 32)
  v128.store(to, v128.load(from, 48), 48)
  return to + 64 - zeros
}

// @ts-ignore: decorator
@inline
function hexDigit(value: u32): u32 {
  return value < 10 ? 0x30 + value : 0x57 + value
}

/** Writes 16 bytes as 32 digits. */
// @ts-ignore: decorator
@inline
function hex16(to: usize, bytes: v128): void {
  const digits = i8x16(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66)
  const high = i8x16.shr_u(bytes, 4)
  const low = v128.and(bytes, i8x16.splat(15))
  const first = i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
  const second = i8x16.shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
  v128.store(to, i8x16.swizzle(digits, first))
  v128.store(to, i8x16.swizzle(digits, second), 16)
}
