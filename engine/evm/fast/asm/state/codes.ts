/** Code entries by hash with their jump destinations, retained over sessions up to a size limit. */
import { A_CODE, A_HASH, EMPTY_HASH, hasCode, makeThere, touch } from './accounts'
import { ARENA_BYTES, rewind, take } from '../memory/heap'
import { ASKED, hostCode } from '../host/imports'
import { countOne, emptyTable, enlarge, hashOfWord, isFull, nextBucket, bucketOf, TABLE_BYTES } from './index-table'
import { J_CODE, appendBoth } from './journal'
import { keccak256 } from '../primitives/keccak'
import { bswapCopy, copy, eq } from '../primitives/u256'

export const C_LENGTH: usize = 0
/** Pointer to the bitmap of jump destinations; 0 before the analysis. */
const C_JUMPS: usize = 4
/** Number of runs, by which repeated code is chosen for translation. */
export const C_RUNS: usize = 8
/** Pointer to the translation; 0 if there is none. */
export const C_STREAM: usize = 12
const C_HASH: usize = 32
/** Start of the code's bytes. */
export const C_BYTES: usize = 64
/** Zeros after the code: it ends in STOP, and a PUSH may read beyond the end. */
export const PADDING: usize = 64

const CODES: usize = memory.data(TABLE_BYTES, 4)
const ARENA: usize = memory.data(ARENA_BYTES, 4)
const BLOCK_BYTES: usize = 1 << 18
const MIN_BUCKETS: u32 = 256
/** Bytes of code that may be retained from one session to the next. */
const RETAINED_BYTES: usize = 4 << 20
const EMPTY_CODE: usize = memory.data(192, 16)
const HASH: usize = memory.data(32, 16)

let retainedBytes: usize = RETAINED_BYTES + 1
/** Bytes of translations, which share the arena's blocks. */
let streamBytes: usize = 0
const MAX_STREAM_BYTES: usize = 6 << 20
/**
 * Minimum sessions between evictions for translation space, because evicted code must be translated
 * again.
 */
const STREAM_SESSIONS: u32 = 32
let sessions: u32 = 0

/** Runs between sessions, because no record refers to an entry then. */
export function evictCodes(): void {
  sessions++
  const isStale = isFullOfStreams() && sessions >= STREAM_SESSIONS
  if (retainedBytes <= RETAINED_BYTES && !isStale) return
  sessions = 0
  retainedBytes = 0
  streamBytes = 0
  rewind(ARENA)
  emptyTable(CODES, MIN_BUCKETS)
}

/** True if no more code is translated until the next eviction. */
export function isFullOfStreams(): bool {
  return streamBytes >= MAX_STREAM_BYTES
}
/** Allocates space for a translation; 0 if the limit is reached. */
export function takeStream(bytes: usize): usize {
  if (streamBytes + bytes > MAX_STREAM_BYTES) {
    streamBytes = MAX_STREAM_BYTES
    return 0
  }
  streamBytes += bytes
  return take(ARENA, bytes, BLOCK_BYTES)
}

/** Allocates an entry; the caller fills bytes and hash. */
export function newCode(length: u32): usize {
  const padded = (<usize>length + PADDING + 15) & ~15
  const entry = take(ARENA, C_BYTES + padded, BLOCK_BYTES)
  memory.fill(entry, 0, C_BYTES)
  memory.fill(entry + C_BYTES + length, 0, padded - length)
  store<u32>(entry, length)
  retainedBytes += C_BYTES + padded
  return entry
}

function bucketFor(hash: usize): usize {
  let at = bucketOf(CODES, hashOfWord(0, hash))
  while (true) {
    const entry = <usize>load<u32>(at)
    if (entry == 0 || eq(entry + C_HASH, hash)) return at
    at = nextBucket(CODES, at)
  }
  return 0
}
function hashOfCode(entry: usize): u32 {
  return hashOfWord(0, entry + C_HASH)
}

function insert(entry: usize, hash: usize): void {
  if (isFull(CODES)) enlarge(CODES, hashOfCode)
  copy(entry + C_HASH, hash)
  store<u32>(bucketFor(hash), <u32>entry)
  countOne(CODES)
}

/**
 * Returns the entry of an account's code. Missing code gives the empty entry and is read again next
 * time.
 */
export function codeOf(record: usize): usize {
  const known = <usize>load<u32>(record, A_CODE)
  if (known != 0) return known
  let entry = EMPTY_CODE
  if (hasCode(record)) {
    entry = load<u32>(bucketFor(record + A_HASH))
    if (entry == 0) {
      bswapCopy(ASKED, record + A_HASH)
      entry = hostCode()
      if (entry == 0) return EMPTY_CODE
      insert(entry, record + A_HASH)
    }
  }
  store<u32>(record, <u32>entry, A_CODE)
  return entry
}

/** Sets the code, and creates the account if it does not exist. */
export function setCode(record: usize, from: usize, length: u32): void {
  let entry = EMPTY_CODE
  copy(HASH, EMPTY_HASH)
  if (length > 0) {
    keccak256(HASH, from, length)
    bswapCopy(HASH, HASH)
    entry = load<u32>(bucketFor(HASH))
    if (entry == 0) {
      entry = newCode(length)
      memory.copy(entry + C_BYTES, from, length)
      insert(entry, HASH)
    }
  }
  touch(record)
  makeThere(record)
  putCode(record, entry, HASH)
}

export function dropCode(record: usize): void {
  putCode(record, EMPTY_CODE, EMPTY_HASH)
}

function putCode(record: usize, entry: usize, hash: usize): void {
  appendBoth(J_CODE, record, load<u32>(record, A_CODE), record + A_HASH)
  store<u32>(record, <u32>entry, A_CODE)
  copy(record + A_HASH, hash)
}

/** Returns the 20 bytes of the delegate in the code (EIP-7702); 0 if there is none. */
export function delegateOf(entry: usize): usize {
  if (load<u32>(entry) != 23) return 0
  return (load<u32>(entry, C_BYTES) & 0xffffff) == 0x0001ef ? entry + C_BYTES + 3 : 0
}

/** Returns the bitmap of jump destinations, which is computed once. */
export function jumpsOf(entry: usize): usize {
  let jumps = <usize>load<u32>(entry, C_JUMPS)
  if (jumps == 0) {
    const length = load<u32>(entry)
    const bytes = bitmapBytes(length)
    jumps = take(ARENA, bytes, BLOCK_BYTES)
    retainedBytes += bytes
    markJumps(jumps, entry + C_BYTES, length)
    store<u32>(entry, <u32>jumps, C_JUMPS)
  }
  return jumps
}

export function bitmapBytes(length: u32): usize {
  return ((<usize>length >> 3) + 16) & ~15
}

/** Writes one bit for each byte of code, set for each JUMPDEST outside of PUSH data. */
export function markJumps(bitmap: usize, code: usize, length: u32): void {
  memory.fill(bitmap, 0, bitmapBytes(length))
  for (let pc: u32 = 0; pc < length; pc++) {
    const op = <u32>load<u8>(code + pc)
    if (op == 0x5b) {
      const at = bitmap + (pc >> 3)
      store<u8>(at, load<u8>(at) | <u8>(<u32>1 << (pc & 7)))
    } else if (op - 0x60 < 32) pc += op - 0x5f
  }
}
