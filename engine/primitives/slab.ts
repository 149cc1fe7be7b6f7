/** Small byte arrays that lie side by side in larger ones. */
import type { Bytes } from './bytes.ts'

/** `block` is what parts are cut from now; a block lives as long as one of its parts. */
export type Slab = { block: ArrayBuffer; used: number; readonly blockBytes: number }

export const newSlab = (blockBytes: number): Slab => ({
  block: new ArrayBuffer(0),
  used: 0,
  blockBytes,
})

/**
 * `length` bytes, all zero. An array of its own takes three times as much of V8's heap, which every collection copies while it is
 * young, and one of up to 64 bytes is moved out of that heap when native code asks for it.
 */
export function take(slab: Slab, length: number): Bytes {
  if (slab.used + length > slab.block.byteLength) {
    slab.block = new ArrayBuffer(Math.max(length, slab.blockBytes))
    slab.used = 0
  }
  const part = new Uint8Array(slab.block, slab.used, length)
  slab.used += length
  return part
}
