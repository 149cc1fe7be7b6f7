/** 64-bit checksum for large inputs; the only file that imports xxhash. */
import { xxh3 } from '@node-rs/xxhash'
import type { Bytes } from './bytes.ts'

/** XXH3, 64 bits, seed 0. Not cryptographic: finds damage, not intent. */
export function checksum(data: Bytes): bigint {
  return xxh3.xxh64(data)
}

/** The same of all parts, one after the other. @param parts texts are ASCII */
export function checksumOf(parts: Iterable<string | Bytes>): bigint {
  const hash = xxh3.Xxh3.withSeed(0n)
  for (const part of parts) hash.update(part)
  return hash.digest()
}
