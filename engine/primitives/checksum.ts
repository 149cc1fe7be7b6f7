/** 64-bit checksum for large inputs; the only file that imports xxhash. */
import { xxh3 } from '@node-rs/xxhash'
import type { Bytes } from './bytes.ts'

/**
 * Returns XXH3 with 64 bits and seed 0. The checksum finds damage, but it is no protection against
 * intent.
 */
export function checksum(data: Bytes): bigint {
  return xxh3.xxh64(data)
}

/**
 * Returns the checksum of the concatenated parts.
 * @param parts texts are ASCII
 */
export function checksumOf(parts: Iterable<string | Bytes>): bigint {
  const hash = xxh3.Xxh3.withSeed(0n)
  for (const part of parts) hash.update(part)
  return hash.digest()
}
