/**
 * Frames: a record for each depth, a stack of its own for each depth, and memory. Memories stand one behind the other in blocks; only
 * the innermost frame's memory grows, and moves where the block ends, so that what its callers point to stays.
 */
import { allocate, AREA_BYTES, areaOf, blockBytes, release, reserve, shrink } from './heap'
import { hostStop, STOP_MEMORY } from './imports'
import { depth, spend } from './machine'

export const F_IP: usize = 0
/** Top of the stack, which grows down. */
export const F_SP: usize = 4
export const F_GAS: usize = 8
/** Where the empty stack's top is. */
export const F_STACK: usize = 16
export const F_MEMORY: usize = 20
/** Whole words, in bytes. */
export const F_SIZE: usize = 24
export const F_CODE: usize = 28
export const F_CODE_LENGTH: usize = 32
/** Bitmap of the places where a jump may go. */
export const F_JUMPS: usize = 36
/** Whose storage it has. */
export const F_ACCOUNT: usize = 40
export const F_STATIC: usize = 44
export const F_INPUT: usize = 48
export const F_INPUT_LENGTH: usize = 52
/** Where its caller wants the output, and how much of it. */
export const F_OUTPUT: usize = 56
export const F_OUTPUT_LENGTH: usize = 60
/** What it goes back to when it fails. */
export const F_JOURNAL: usize = 64
export const F_LOGS: usize = 68
export const F_REFUND: usize = 72
/** Opcode that made it. */
export const F_KIND: usize = 80
const F_BLOCK: usize = 84
/** Gas at its begin. */
export const F_GIVEN: usize = 88
export const F_CALLER: usize = 96
export const F_VALUE: usize = 128
/** The entry of its code, 0 for init code. */
export const F_ENTRY: usize = 160
/** The translation it runs on, 0: on the bytes of its code. */
export const F_STREAM: usize = 164
export const FRAME_BYTES: usize = 176

/** The record of depth 0. */
export let frames: usize = 0
/** Stacks by depth; 0: nobody was that deep yet. */
const STACKS: usize = memory.data(1025 * 4, 4)
export const STACK_BYTES: usize = 1024 * 32
/** Blocks of memory: where, how many bytes. A frame begins two at most, one for init code and one for its memory; a last one stays empty. */
const BLOCKS: usize = memory.data((2 * 1025 + 2) * 8, 8)
const LEAST_BLOCK: usize = 1 << 18
/** What a run leaves to the next. */
const KEPT_BLOCK: usize = 1 << 20

/** Bytes of all frames' memory together, and of one. */
let memoryBytes: usize = 0
let mostMemory: usize = 64 << 20
let mostFrameMemory: usize = 64 << 20

/** Output of the last call, until the next. */
export const RETURN: usize = memory.data(AREA_BYTES, 4)
const KEPT_RETURN: usize = 1 << 18

export function makeFrames(): void {
  frames = allocate(1025 * FRAME_BYTES)
  reserve(RETURN, 0, 4096)
}

export function startMemory(ofFrame: usize, ofAll: usize): void {
  memoryBytes = 0
  mostFrameMemory = ofFrame
  mostMemory = ofAll
  hold(0, LEAST_BLOCK)
}

/** After a run. */
export function trimMemory(): void {
  for (let at = BLOCKS + 8; load<u32>(at) != 0; at += 8) drop(at)
  if (<usize>load<u32>(BLOCKS, 4) > KEPT_BLOCK) drop(BLOCKS)
  shrink(RETURN, KEPT_RETURN)
  reserve(RETURN, 0, 4096)
}
function drop(at: usize): void {
  const block = <usize>load<u32>(at)
  if (block == 0) return
  release(block, load<u32>(at, 4))
  store<u64>(at, 0)
}

/** Makes block `number` hold `bytes`; what it held is gone where it did not. */
function hold(number: u32, bytes: usize): void {
  const at = BLOCKS + (<usize>number << 3)
  if (<usize>load<u32>(at, 4) >= bytes) return
  const block = allocate(bytes)
  drop(at)
  store<u32>(at, <u32>block)
  store<u32>(at, <u32>blockBytes(bytes), 4)
}

// @ts-ignore: decorator
@inline
export function stackOf(level: i32): usize {
  const at = STACKS + (<usize>level << 2)
  const stack = <usize>load<u32>(at)
  return stack != 0 ? stack : newStack(at)
}
function newStack(at: usize): usize {
  const stack = allocate(STACK_BYTES)
  store<u32>(at, <u32>stack)
  return stack
}

/** Puts the memory of a new frame behind that of its caller, with `bytes` for itself before it: returns where those are. */
export function placeMemory(frame: usize, bytes: usize): usize {
  let number: u32 = 0
  let at = <usize>load<u32>(BLOCKS)
  if (depth > 0) {
    const caller = frame - FRAME_BYTES
    number = load<u32>(caller, F_BLOCK)
    at = (<usize>load<u32>(caller, F_MEMORY) + <usize>load<u32>(caller, F_SIZE) + 31) & ~31
  }
  const block = BLOCKS + (<usize>number << 3)
  if (bytes > 0 && at + bytes > <usize>load<u32>(block) + <usize>load<u32>(block, 4)) {
    number++
    hold(number, max(bytes, LEAST_BLOCK))
    at = load<u32>(block, 8)
  }
  store<u32>(frame, number, F_BLOCK)
  store<u32>(frame, <u32>((at + bytes + 31) & ~31), F_MEMORY)
  store<u32>(frame, 0, F_SIZE)
  return at
}

/** Its memory is nobody's any more. */
// @ts-ignore: decorator
@inline
export function leaveMemory(frame: usize): void {
  memoryBytes -= <usize>load<u32>(frame, F_SIZE)
}

/** The memory has `end` bytes at least, in whole words; it is paid for. */
// @ts-ignore: decorator
@inline
export function grow(frame: usize, end: u64): void {
  if (end > <u64>load<u32>(frame, F_SIZE)) growTo(frame, end)
}

function growTo(frame: usize, end: u64): void {
  if (end > <u64>mostFrameMemory) hostStop(STOP_MEMORY)
  const size = (<usize>end + 31) & ~31
  const had = <usize>load<u32>(frame, F_SIZE)
  if (memoryBytes + size - had > mostMemory || size > mostFrameMemory) hostStop(STOP_MEMORY)
  spend(<u32>(size - had) >> 6)
  const block = BLOCKS + (<usize>load<u32>(frame, F_BLOCK) << 3)
  let at = <usize>load<u32>(frame, F_MEMORY)
  if (at + size > <usize>load<u32>(block) + <usize>load<u32>(block, 4)) at = move(frame, block, size)
  memory.fill(at + had, 0, size - had)
  store<u32>(frame, <u32>size, F_SIZE)
  memoryBytes += size - had
}

/** To a block that holds twice as much: this one, if the frame is alone in it, or the next. */
function move(frame: usize, block: usize, size: usize): usize {
  const from = <usize>load<u32>(frame, F_MEMORY)
  const had = <usize>load<u32>(frame, F_SIZE)
  const bytes = max(size << 1, LEAST_BLOCK)
  if (from == <usize>load<u32>(block)) {
    const to = allocate(bytes)
    memory.copy(to, from, had)
    drop(block)
    store<u32>(block, <u32>to)
    store<u32>(block, <u32>blockBytes(bytes), 4)
    store<u32>(frame, <u32>to, F_MEMORY)
    return to
  }
  const number = load<u32>(frame, F_BLOCK) + 1
  hold(number, bytes)
  const to = <usize>load<u32>(block, 8)
  memory.copy(to, from, had)
  store<u32>(frame, number, F_BLOCK)
  store<u32>(frame, <u32>to, F_MEMORY)
  return to
}

/** Where output of `length` bytes goes. */
export function returnArea(length: u32): usize {
  reserve(RETURN, 0, length)
  return areaOf(RETURN)
}
