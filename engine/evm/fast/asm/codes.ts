/** Code by its hash, with where jumps may go; kept over sessions until there is too much of it. */
import { A_CODE, A_HASH, EMPTY_HASH, hasCode, makeThere, touch } from './accounts'
import { ARENA_BYTES, rewind, take } from './heap'
import { ASKED, hostCode } from './imports'
import { countOne, emptyTable, enlarge, hashOfWord, isFull, nextPlace, placeOf, TABLE_BYTES } from './index-table'
import { J_CODE, noteBoth } from './journal'
import { keccak256 } from './keccak'
import { bswapCopy, copy, eq } from './u256'

export const C_LENGTH: usize = 0
/** Bitmap of jump destinations, 0: not looked for yet. */
const C_JUMPS: usize = 4
/** How often it has run: what runs again may be worth translating. */
export const C_RUNS: usize = 8
/** Its translation, 0: none. */
export const C_STREAM: usize = 12
const C_HASH: usize = 32
/** The bytes begin here. */
export const C_BYTES: usize = 64
/** Zeros behind the code: it ends in STOP, and a PUSH may reach over the end. */
export const PADDING: usize = 64

const CODES: usize = memory.data(TABLE_BYTES, 4)
const ARENA: usize = memory.data(ARENA_BYTES, 4)
const BLOCK_BYTES: usize = 1 << 18
const LEAST_PLACES: u32 = 256
/** Bytes of code that are kept from one session to the next. */
const KEPT_BYTES: usize = 4 << 20
const EMPTY_CODE: usize = memory.data(192, 16)
const HASH: usize = memory.data(32, 16)

let keptBytes: usize = KEPT_BYTES + 1
/** Bytes of translations, in the same blocks. */
let streamBytes: usize = 0
const MOST_STREAM_BYTES: usize = 6 << 20
/** Sessions that go on with what is translated when there is no room for more: what is dropped is translated again. */
const STREAM_SESSIONS: u32 = 32
let sessions: u32 = 0

/** Between sessions: nobody refers to an entry then. */
export function evictCodes(): void {
  sessions++
  const isStale = isFullOfStreams() && sessions >= STREAM_SESSIONS
  if (keptBytes <= KEPT_BYTES && !isStale) return
  sessions = 0
  keptBytes = 0
  streamBytes = 0
  rewind(ARENA)
  emptyTable(CODES, LEAST_PLACES)
}

/** No more code is translated until the next session. */
export function isFullOfStreams(): bool {
  return streamBytes >= MOST_STREAM_BYTES
}
/** Where a translation of so many bytes goes, 0: there are enough of them. */
export function takeStream(bytes: usize): usize {
  if (streamBytes + bytes > MOST_STREAM_BYTES) {
    streamBytes = MOST_STREAM_BYTES
    return 0
  }
  streamBytes += bytes
  return take(ARENA, bytes, BLOCK_BYTES)
}

/** An entry without bytes and hash. */
export function newCode(length: u32): usize {
  const padded = (<usize>length + PADDING + 15) & ~15
  const entry = take(ARENA, C_BYTES + padded, BLOCK_BYTES)
  memory.fill(entry, 0, C_BYTES)
  memory.fill(entry + C_BYTES + length, 0, padded - length)
  store<u32>(entry, length)
  keptBytes += C_BYTES + padded
  return entry
}

function place(hash: usize): usize {
  let at = placeOf(CODES, hashOfWord(0, hash))
  while (true) {
    const entry = <usize>load<u32>(at)
    if (entry == 0 || eq(entry + C_HASH, hash)) return at
    at = nextPlace(CODES, at)
  }
  return 0
}
function hashOfCode(entry: usize): u32 {
  return hashOfWord(0, entry + C_HASH)
}

function keep(entry: usize, hash: usize): void {
  if (isFull(CODES)) enlarge(CODES, hashOfCode)
  copy(entry + C_HASH, hash)
  store<u32>(place(hash), <u32>entry)
  countOne(CODES)
}

/** Entry of an account's code. That of code that is missing is empty, and is asked for again. */
export function codeOf(record: usize): usize {
  const known = <usize>load<u32>(record, A_CODE)
  if (known != 0) return known
  let entry = EMPTY_CODE
  if (hasCode(record)) {
    entry = load<u32>(place(record + A_HASH))
    if (entry == 0) {
      bswapCopy(ASKED, record + A_HASH)
      entry = hostCode()
      if (entry == 0) return EMPTY_CODE
      keep(entry, record + A_HASH)
    }
  }
  store<u32>(record, <u32>entry, A_CODE)
  return entry
}

/** Makes the account where there is none. */
export function setCode(record: usize, from: usize, length: u32): void {
  let entry = EMPTY_CODE
  copy(HASH, EMPTY_HASH)
  if (length > 0) {
    keccak256(HASH, from, length)
    bswapCopy(HASH, HASH)
    entry = load<u32>(place(HASH))
    if (entry == 0) {
      entry = newCode(length)
      memory.copy(entry + C_BYTES, from, length)
      keep(entry, HASH)
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
  noteBoth(J_CODE, record, load<u32>(record, A_CODE), record + A_HASH)
  store<u32>(record, <u32>entry, A_CODE)
  copy(record + A_HASH, hash)
}

/** The 20 bytes of the account whose code runs in its place (EIP-7702), 0: none. */
export function delegateOf(entry: usize): usize {
  if (load<u32>(entry) != 23) return 0
  return (load<u32>(entry, C_BYTES) & 0xffffff) == 0x0001ef ? entry + C_BYTES + 3 : 0
}

/** Where jumps may go; looked for once. */
export function jumpsOf(entry: usize): usize {
  let jumps = <usize>load<u32>(entry, C_JUMPS)
  if (jumps == 0) {
    const length = load<u32>(entry)
    const bytes = bitmapBytes(length)
    jumps = take(ARENA, bytes, BLOCK_BYTES)
    keptBytes += bytes
    markJumps(jumps, entry + C_BYTES, length)
    store<u32>(entry, <u32>jumps, C_JUMPS)
  }
  return jumps
}

export function bitmapBytes(length: u32): usize {
  return ((<usize>length >> 3) + 16) & ~15
}

/** One bit a byte, set for a JUMPDEST that is no data of a PUSH. */
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
