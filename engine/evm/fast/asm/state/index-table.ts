/**
 * Hash tables of record pointers with open addressing. At most half of the buckets are used, so a
 * probe ends. The host provides a random seed, so that keys chosen from outside do not collide.
 */
import { allocate, release, blockBytes } from '../memory/heap'

const T_AT: usize = 0
const T_MASK: usize = 4
const T_COUNT: usize = 8
export const TABLE_BYTES: i32 = 12

let seed: u64 = 0x9e3779b97f4a7c15
let factor: u64 = 0xbf58476d1ce4e5b9

export function setSeed(low: u64, high: u64): void {
  seed = low
  factor = high | 1
}

// @ts-ignore: decorator
@inline
function mix(h: u64, limb: u64): u64 {
  const x = (h ^ limb) * factor
  return x ^ (x >> 29)
}

/** Hashes an address given as limbs of a word. */
// @ts-ignore: decorator
@inline
export function hashOfAddress(a0: u64, a1: u64, a2: u64): u32 {
  return <u32>(mix(mix(mix(seed, a0), a1), a2) >> 24)
}

/** Hashes a word together with its owner's record. */
// @ts-ignore: decorator
@inline
export function hashOfWord(owner: usize, word: usize): u32 {
  const h = mix(mix(seed ^ (<u64>owner << 20), load<u64>(word)), load<u64>(word, 8))
  return <u32>(mix(mix(h, load<u64>(word, 16)), load<u64>(word, 24)) >> 24)
}

/** Returns the first bucket of a hash; the probe continues with `nextBucket`. */
// @ts-ignore: decorator
@inline
export function bucketOf(table: usize, hash: u32): usize {
  return <usize>load<u32>(table) + (<usize>(hash & load<u32>(table, T_MASK)) << 2)
}

// @ts-ignore: decorator
@inline
export function nextBucket(table: usize, bucket: usize): usize {
  const from = <usize>load<u32>(table)
  return from + ((bucket + 4 - from) & ((<usize>load<u32>(table, T_MASK) << 2) | 3))
}

/** True if one more record needs a larger table; the caller then calls `enlarge`. */
// @ts-ignore: decorator
@inline
export function isFull(table: usize): bool {
  return (load<u32>(table, T_COUNT) + 1) << 1 > load<u32>(table, T_MASK)
}

// @ts-ignore: decorator
@inline
export function countOne(table: usize): void {
  store<u32>(table, load<u32>(table, T_COUNT) + 1, T_COUNT)
}

/** Replaces the table with an empty one of `buckets`, a power of two. */
export function emptyTable(table: usize, buckets: u32): void {
  const old = <usize>load<u32>(table)
  const had: usize = old == 0 ? 0 : <usize>(load<u32>(table, T_MASK) + 1) << 2
  const bytes = <usize>buckets << 2
  let at = old
  if (had != bytes) {
    at = allocate(bytes)
    if (old != 0) release(old, had)
  }
  memory.fill(at, 0, bytes)
  store<u32>(table, <u32>at, T_AT)
  store<u32>(table, buckets - 1, T_MASK)
  store<u32>(table, 0, T_COUNT)
}

/**
 * Doubles the number of buckets.
 * @param hashOf computes the hash of a record
 */
export function enlarge(table: usize, hashOf: (record: usize) => u32): void {
  const old = <usize>load<u32>(table)
  const buckets = load<u32>(table, T_MASK) + 1
  const bytes = <usize>buckets << 3
  const at = allocate(bytes)
  memory.fill(at, 0, bytes)
  store<u32>(table, <u32>at, T_AT)
  store<u32>(table, (buckets << 1) - 1, T_MASK)
  for (let from = old, end = old + (<usize>buckets << 2); from < end; from += 4) {
    const record = load<u32>(from)
    if (record == 0) continue
    let bucket = bucketOf(table, hashOf(record))
    while (load<u32>(bucket) != 0) bucket = nextBucket(table, bucket)
    store<u32>(bucket, record)
  }
  release(old, blockBytes(<usize>buckets << 2))
}
