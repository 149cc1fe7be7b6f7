/**
 * The two forms of binary data: bytes inside the engine, 0x-prefixed lower-case hex at its edge.
 * A slab has small byte arrays side by side in larger ones.
 */

export type Bytes = Uint8Array
export type Hex = `0x${string}`
/** Shared by all callers, so the buffer must not be transferred to another thread. */
export const NO_BYTES: Bytes = new Uint8Array(0)

/** Parts are cut from `block`; each block lives as long as one of its parts. */
export type Slab = { block: ArrayBuffer; used: number; readonly blockBytes: number }

export const newSlab = (blockBytes: number): Slab => ({
  block: new ArrayBuffer(0),
  used: 0,
  blockBytes,
})

/**
 * Returns `length` zero bytes.
 * A separate array takes three times as much of V8's heap, which each collection copies while
 * young. One of up to 64 bytes also moves out of that heap when native code reads it.
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
