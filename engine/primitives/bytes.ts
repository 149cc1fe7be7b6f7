/** The two forms of binary data: bytes inside the engine, 0x-prefixed lower-case hex at its edge. */
export type Bytes = Uint8Array
export type Hex = `0x${string}`
/** It is shared by all, so its buffer is not to be transferred to another thread. */
export const NO_BYTES: Bytes = new Uint8Array(0)
