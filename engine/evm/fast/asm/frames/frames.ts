/**
 * Frames have a record and a stack for each depth, and memory. Memories follow one another in
 * blocks. Only the innermost frame's memory grows, and moves at the block's end, so callers'
 * pointers stay valid.
 */
import { allocate, AREA_BYTES, areaOf, blockBytes, release, reserve, shrink } from '../memory/heap'
import { hostStop, STOP_MEMORY } from '../host/imports'
import { depth, spend } from '../interpreter/machine'

export const F_IP: usize = 0
/** Top of the stack, which grows down. */
export const F_SP: usize = 4
export const F_GAS: usize = 8
/** Position of the empty stack's top. */
export const F_STACK: usize = 16
export const F_MEMORY: usize = 20
/** Bytes of memory, in whole words. */
export const F_SIZE: usize = 24
export const F_CODE: usize = 28
export const F_CODE_LENGTH: usize = 32
/** Bitmap of jump destinations. */
export const F_JUMPS: usize = 36
/** Record of the account whose storage the frame uses. */
export const F_ACCOUNT: usize = 40
export const F_STATIC: usize = 44
export const F_INPUT: usize = 48
export const F_INPUT_LENGTH: usize = 52
/** Position and maximum length of the output in the caller's memory. */
export const F_OUTPUT: usize = 56
export const F_OUTPUT_LENGTH: usize = 60
/** Positions of journal, logs and refund that a failing frame reverts to. */
export const F_JOURNAL: usize = 64
export const F_LOGS: usize = 68
export const F_REFUND: usize = 72
/** Opcode that made the frame. */
export const F_KIND: usize = 80
const F_BLOCK: usize = 84
/** Gas at the frame's start. */
export const F_GIVEN: usize = 88
export const F_CALLER: usize = 96
export const F_VALUE: usize = 128
/** Entry of the frame's code; 0 for init code. */
export const F_ENTRY: usize = 160
/** Translation that the frame runs on; 0 if it runs on the code's bytes. */
export const F_STREAM: usize = 164
export const FRAME_BYTES: usize = 176

/** Record of depth 0. */
export let frames: usize = 0
/** Stacks by depth; 0 if no frame was that deep yet. */
const STACKS: usize = memory.data(1025 * 4, 4)
export const STACK_BYTES: usize = 1024 * 32
/**
 * Blocks of memory: address and size. A frame starts at most two, for init code and for memory; the
 * last entry stays empty.
 */
const BLOCKS: usize = memory.data((2 * 1025 + 2) * 8, 8)
const MIN_BLOCK: usize = 1 << 18
/** Maximum size of a block that a run leaves to the next. */
const RETAINED_BLOCK: usize = 1 << 20

/** Bytes of all frames' memory, the maximum of all frames, and the maximum of one frame. */
let memoryBytes: usize = 0
let maxMemory: usize = 64 << 20
let maxFrameMemory: usize = 64 << 20

/** Output of the last call, valid until the next call. */
export const RETURN: usize = memory.data(AREA_BYTES, 4)
const RETAINED_RETURN: usize = 1 << 18

export function makeFrames(): void {
  frames = allocate(1025 * FRAME_BYTES)
  reserve(RETURN, 0, 4096)
}

export function startMemory(ofFrame: usize, ofAll: usize): void {
  memoryBytes = 0
  maxFrameMemory = ofFrame
  maxMemory = ofAll
  ensureBlock(0, MIN_BLOCK)
}

/** Frees blocks after a run. */
export function trimMemory(): void {
  for (let at = BLOCKS + 8; load<u32>(at) != 0; at += 8) drop(at)
  if (<usize>load<u32>(BLOCKS, 4) > RETAINED_BLOCK) drop(BLOCKS)
  shrink(RETURN, RETAINED_RETURN)
  reserve(RETURN, 0, 4096)
}
function drop(at: usize): void {
  const block = <usize>load<u32>(at)
  if (block == 0) return
  release(block, load<u32>(at, 4))
  store<u64>(at, 0)
}

/** Ensures that block `number` has at least `bytes`; a replaced block loses its content. */
function ensureBlock(number: u32, bytes: usize): void {
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

/**
 * Places a new frame's memory after its caller's, preceded by `bytes` of the frame's own.
 * @returns the address of those bytes
 */
export function reserveMemory(frame: usize, bytes: usize): usize {
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
    ensureBlock(number, max(bytes, MIN_BLOCK))
    at = load<u32>(block, 8)
  }
  store<u32>(frame, number, F_BLOCK)
  store<u32>(frame, <u32>((at + bytes + 31) & ~31), F_MEMORY)
  store<u32>(frame, 0, F_SIZE)
  return at
}

/** Subtracts the frame's memory from the total. */
// @ts-ignore: decorator
@inline
export function leaveMemory(frame: usize): void {
  memoryBytes -= <usize>load<u32>(frame, F_SIZE)
}

/** Grows the memory to at least `end` bytes in whole words; the gas is already charged. */
// @ts-ignore: decorator
@inline
export function grow(frame: usize, end: u64): void {
  if (end > <u64>load<u32>(frame, F_SIZE)) growTo(frame, end)
}

function growTo(frame: usize, end: u64): void {
  if (end > <u64>maxFrameMemory) hostStop(STOP_MEMORY)
  const size = (<usize>end + 31) & ~31
  const had = <usize>load<u32>(frame, F_SIZE)
  if (memoryBytes + size - had > maxMemory || size > maxFrameMemory) hostStop(STOP_MEMORY)
  spend(<u32>(size - had) >> 6)
  const block = BLOCKS + (<usize>load<u32>(frame, F_BLOCK) << 3)
  let at = <usize>load<u32>(frame, F_MEMORY)
  if (at + size > <usize>load<u32>(block) + <usize>load<u32>(block, 4)) at = move(frame, block, size)
  memory.fill(at + had, 0, size - had)
  store<u32>(frame, <u32>size, F_SIZE)
  memoryBytes += size - had
}

/**
 * Moves the memory to a block of twice the size. A frame alone in its block replaces it; otherwise
 * the next block is used.
 */
function move(frame: usize, block: usize, size: usize): usize {
  const from = <usize>load<u32>(frame, F_MEMORY)
  const had = <usize>load<u32>(frame, F_SIZE)
  const bytes = max(size << 1, MIN_BLOCK)
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
  ensureBlock(number, bytes)
  const to = <usize>load<u32>(block, 8)
  memory.copy(to, from, had)
  store<u32>(frame, number, F_BLOCK)
  store<u32>(frame, <u32>to, F_MEMORY)
  return to
}

/**
 * Ensures that the return area has `length` bytes.
 * @returns the area's address
 */
export function returnArea(length: u32): usize {
  reserve(RETURN, 0, length)
  return areaOf(RETURN)
}
