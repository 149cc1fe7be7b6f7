/** 64-bit checksum for large inputs; the only file that imports xxhash. */
import { xxh3 } from '@node-rs/xxhash'
import type { Bytes } from './bytes.ts'

/** XXH3, 64 bits, seed 0. Not cryptographic: finds damage, not intent. */
export function checksum(data: Bytes): bigint {
  return xxh3.xxh64(data)
}
