/** Words of the block and the message that opcodes read; the host writes them. */
export const COINBASE: usize = memory.data(11 * 32, 16)
export const TIMESTAMP: usize = COINBASE + 32
export const NUMBER: usize = COINBASE + 64
export const RANDOM: usize = COINBASE + 96
export const GAS_LIMIT: usize = COINBASE + 128
export const CHAIN_ID: usize = COINBASE + 160
export const BASE_FEE: usize = COINBASE + 192
export const BLOB_BASE_FEE: usize = COINBASE + 224
export const ORIGIN: usize = COINBASE + 256
export const GAS_PRICE: usize = COINBASE + 288
/** Number of the message's blob hashes, and their address; 32 bytes each, big endian. */
export const BLOBS: usize = COINBASE + 320
export const BLOBS_AT: usize = COINBASE + 324
