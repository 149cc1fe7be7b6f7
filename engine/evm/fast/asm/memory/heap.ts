/**
 * Allocates memory above the static data. Blocks are powers of two from 4 kB; a released block
 * serves the next request of its size. A failed allocation ends the run, so no structure may be
 * half changed during an allocation.
 */
import { hostStop, STOP_MEMORY } from '../host/imports'

const MIN_BITS: u32 = 12
/** Heads of the lists of free blocks, by the bits of their size. */
const FREE: usize = memory.data(32 * 4, 4)
/** Minimum growth of linear memory, in pages of 64 kB. */
const GROWTH_PAGES: i32 = 16

let top: usize = 0
let maxBytes: usize = 256 << 20

/**
 * @param bytes limit of the whole linear memory, up to 2 GB, because the host sees signed positions
 */
export function setMaxBytes(bytes: usize): void {
  maxBytes = bytes
}

/** Allocates a block of at least `bytes` with undefined content. */
export function allocate(bytes: usize): usize {
  const bits = bitsOf(bytes)
  const list = FREE + (bits << 2)
  const free = <usize>load<u32>(list)
  if (free != 0) {
    store<u32>(list, load<u32>(free))
    return free
  }
  if (top == 0) top = (__heap_base + 4095) & ~4095
  const at = top
  const end = at + (<usize>1 << bits)
  reach(end)
  top = end
  return at
}

export function release(at: usize, bytes: usize): void {
  const list = FREE + (bitsOf(bytes) << 2)
  store<u32>(at, load<u32>(list))
  store<u32>(list, <u32>at)
}

/** Returns the size of a block allocated for `bytes`. */
export function blockBytes(bytes: usize): usize {
  return <usize>1 << bitsOf(bytes)
}

function bitsOf(bytes: usize): u32 {
  if (bytes > 1 << 30) hostStop(STOP_MEMORY)
  if (bytes <= 1 << MIN_BITS) return MIN_BITS
  return 32 - clz<u32>(<u32>bytes - 1)
}

function reach(end: usize): void {
  const have = <usize>memory.size() << 16
  if (end <= have) return
  if (end > maxBytes) hostStop(STOP_MEMORY)
  const needed = <i32>((end - have + 0xffff) >> 16)
  const eighth = <i32>(have >> 19)
  const limit = <i32>((maxBytes - have) >> 16)
  const pages = min(max(max(needed, GROWTH_PAGES), eighth), limit)
  if (memory.grow(pages) < 0 && memory.grow(needed) < 0) hostStop(STOP_MEMORY)
}

/**
 * Arenas: pieces that are released all at once. Blocks form a list, of which the first is retained.
 */
const A_FIRST: usize = 0
const A_BLOCK: usize = 4
const A_AT: usize = 8
const A_END: usize = 12
export const ARENA_BYTES: i32 = 16
/** Header of an arena's block: pointer to the next block, size of this block. */
const BLOCK_HEAD: usize = 16

/** Takes `bytes`, rounded up to a multiple of 16, from the arena. */
export function take(arena: usize, bytes: usize, blockSize: usize): usize {
  const size = (bytes + 15) & ~15
  let at = <usize>load<u32>(arena, A_AT)
  while (at == 0 || at + size > <usize>load<u32>(arena, A_END)) {
    nextBlock(arena, max(blockSize, size + BLOCK_HEAD))
    at = <usize>load<u32>(arena, A_AT)
  }
  store<u32>(arena, <u32>(at + size), A_AT)
  return at
}

function nextBlock(arena: usize, bytes: usize): void {
  const current = <usize>load<u32>(arena, A_BLOCK)
  let block: usize = current == 0 ? load<u32>(arena, A_FIRST) : load<u32>(current)
  if (block == 0) {
    block = allocate(bytes)
    store<u32>(block, 0)
    store<u32>(block, <u32>blockBytes(bytes), 4)
    if (current == 0) store<u32>(arena, <u32>block, A_FIRST)
    else store<u32>(current, <u32>block)
  }
  store<u32>(arena, <u32>block, A_BLOCK)
  store<u32>(arena, <u32>(block + BLOCK_HEAD), A_AT)
  store<u32>(arena, <u32>block + load<u32>(block, 4), A_END)
}

/** Drops all pieces, retains the first block and releases the others. */
export function rewind(arena: usize): void {
  const first = <usize>load<u32>(arena, A_FIRST)
  store<u32>(arena, 0, A_BLOCK)
  store<u32>(arena, 0, A_AT)
  if (first == 0) return
  let block = <usize>load<u32>(first)
  store<u32>(first, 0)
  while (block != 0) {
    const next = <usize>load<u32>(block)
    release(block, load<u32>(block, 4))
    block = next
  }
}

/** Growable areas: one block that moves when it grows. */
const G_AT: usize = 0
const G_BYTES: usize = 4
export const AREA_BYTES: i32 = 8

// @ts-ignore: decorator
@inline
export function areaOf(area: usize): usize {
  return load<u32>(area, G_AT)
}

/** Ensures that the area has `bytes`, and preserves the first `used` bytes. */
export function reserve(area: usize, used: usize, bytes: usize): void {
  const had = <usize>load<u32>(area, G_BYTES)
  if (bytes <= had) return
  const old = <usize>load<u32>(area, G_AT)
  const size = blockBytes(max(bytes, had << 1))
  const at = allocate(size)
  if (used > 0) memory.copy(at, old, used)
  store<u32>(area, <u32>at, G_AT)
  store<u32>(area, <u32>size, G_BYTES)
  if (had > 0) release(old, had)
}

/** Releases an area that is larger than `limit`. */
export function shrink(area: usize, limit: usize): void {
  const had = <usize>load<u32>(area, G_BYTES)
  if (had <= limit) return
  release(load<u32>(area, G_AT), had)
  store<u32>(area, 0, G_AT)
  store<u32>(area, 0, G_BYTES)
}
