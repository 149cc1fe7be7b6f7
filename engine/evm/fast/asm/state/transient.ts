/** Transient storage (EIP-1153) in a separate table that is emptied before each run. */
import { ARENA_BYTES, rewind, take } from '../memory/heap'
import { countOne, emptyTable, enlarge, hashOfWord, isFull, nextBucket, bucketOf, TABLE_BYTES } from './index-table'
import { J_TRANSIENT, appendBoth } from './journal'
import { copy, eq, zero } from '../primitives/u256'

const T_ACCOUNT: usize = 0
const T_KEY: usize = 16
const T_VALUE: usize = 48
const TRANSIENT_BYTES: usize = 80

const TRANSIENTS: usize = memory.data(TABLE_BYTES, 4)
const ARENA: usize = memory.data(ARENA_BYTES, 4)
const BLOCK_BYTES: usize = 1 << 14
const MIN_BUCKETS: u32 = 1024

/**
 * Number of the run. Journal entries of older runs are ignored, because their records no longer
 * exist.
 */
let run: u32 = 0
let isUsed: bool = true

export function emptyTransients(): void {
  run++
  if (!isUsed) return
  isUsed = false
  rewind(ARENA)
  emptyTable(TRANSIENTS, MIN_BUCKETS)
}

function find(owner: usize, key: usize, isMade: bool): usize {
  const hash = hashOfWord(owner, key)
  let bucket = bucketOf(TRANSIENTS, hash)
  while (true) {
    const record = <usize>load<u32>(bucket)
    if (record == 0) break
    if (<usize>load<u32>(record, T_ACCOUNT) == owner && eq(record + T_KEY, key)) return record
    bucket = nextBucket(TRANSIENTS, bucket)
  }
  if (!isMade) return 0
  isUsed = true
  const record = take(ARENA, TRANSIENT_BYTES, BLOCK_BYTES)
  if (isFull(TRANSIENTS)) {
    enlarge(TRANSIENTS, hashOf)
    bucket = bucketOf(TRANSIENTS, hash)
    while (load<u32>(bucket) != 0) bucket = nextBucket(TRANSIENTS, bucket)
  }
  store<u32>(record, <u32>owner, T_ACCOUNT)
  copy(record + T_KEY, key)
  zero(record + T_VALUE)
  store<u32>(bucket, <u32>record)
  countOne(TRANSIENTS)
  return record
}

function hashOf(record: usize): u32 {
  return hashOfWord(load<u32>(record, T_ACCOUNT), record + T_KEY)
}

export function loadTransient(to: usize, owner: usize, key: usize): void {
  const record = find(owner, key, false)
  if (record == 0) zero(to)
  else copy(to, record + T_VALUE)
}

export function storeTransient(owner: usize, key: usize, value: usize): void {
  const record = find(owner, key, true)
  appendBoth(J_TRANSIENT, record, run, record + T_VALUE)
  copy(record + T_VALUE, value)
}

export function undoTransient(record: usize, ofRun: u32, before: usize): void {
  if (ofRun == run) copy(record + T_VALUE, before)
}
