/** CREATE and CREATE2: address, init code, the new account, and the deployed code. */
import { A_BALANCE, A_NONCE, A_WORD, account, hasCode, makeThere, markCreated, setNonce, warm } from '../state/accounts'
import { startFrame, CALL_STARTED, CALL_DONE, CALL_FAILED, CREATE2 } from './calls'
import { bitmapBytes, markJumps, PADDING, setCode } from '../state/codes'
import {
  F_ACCOUNT, F_CALLER, F_CODE, F_CODE_LENGTH, F_ENTRY, F_INPUT, F_INPUT_LENGTH, F_IP, F_JUMPS, F_MEMORY, F_OUTPUT_LENGTH, F_STATIC,
  F_STREAM, F_VALUE, FRAME_BYTES, grow, reserveMemory,
} from './frames'
import { journalEnd } from '../state/journal'
import { keccak256 } from '../primitives/keccak'
import {
  charge, depth, fail, failWith, gas, halt, HALT_BALANCE, HALT_CODE_GAS, HALT_CODE_PREFIX, HALT_CODE_SIZE, HALT_COLLISION, HALT_DEPTH,
  HALT_NONCE, HALT_NONE, HALT_OVERFLOW, HALT_PRICE_INIT, HALT_PRICE_OVERFLOW, HALT_PRICE_WRITE, MAX_CODE, MAX_DEPTH, MAX_INIT_CODE,
  returnLength, spend, spendFuel,
} from '../interpreter/machine'
import { BEYOND, endOf, priceOfMemory, TOO_MUCH } from '../memory/memory-ops'
import { hasStorage } from '../state/slots'
import { transfer } from '../state/state-ops'
import { addressOf, isTraced, emit, emitEnter, emitExit } from '../host/trace'
import { bswapCopy, copy, lt, zero } from '../primitives/u256'
import { bytes20ToWord, wordToBytes20 } from '../primitives/words'

const CREATE_TICKS: u32 = 200
const SEED: usize = memory.data(96, 16)
/** The new address, as a word. */
export const CREATED: usize = memory.data(32, 16)

/** Writes the low 20 bytes of keccak256(rlp([sender, nonce])) to CREATED. */
export function addressByNonce(sender: usize, nonce: u64): void {
  const bytes: u32 = nonce == 0 ? 0 : 8 - (<u32>clz<u64>(nonce) >> 3)
  const item: u32 = nonce < 128 ? 1 : bytes + 1
  store<u8>(SEED, 0xc0 + 21 + item)
  store<u8>(SEED, 0x94, 1)
  wordToBytes20(SEED + 2, sender)
  if (nonce == 0) store<u8>(SEED, 0x80, 22)
  else if (nonce < 128) store<u8>(SEED, <u8>nonce, 22)
  else {
    store<u8>(SEED, 0x80 + bytes, 22)
    for (let at: u32 = 0; at < bytes; at++) store<u8>(SEED + 23 + at, <u8>(nonce >> (<u64>(bytes - 1 - at) << 3)))
  }
  keccak256(SEED, SEED, 22 + item)
  bytes20ToWord(CREATED, SEED + 12)
}

/** Writes the low 20 bytes of keccak256(0xff ‖ sender ‖ salt ‖ keccak256(init code)) to CREATED. */
export function addressBySalt(sender: usize, salt: usize, code: usize, length: u32): void {
  store<u8>(SEED, 0xff)
  wordToBytes20(SEED + 1, sender)
  bswapCopy(SEED + 21, salt)
  keccak256(SEED + 53, code, length)
  keccak256(SEED, SEED, 85)
  bytes20ToWord(CREATED, SEED + 12)
}

function payCreate(frame: usize, sp: usize, kind: u32, end: u64): bool {
  if (end == BEYOND) return fail(HALT_OVERFLOW)
  if (load<u32>(frame, F_STATIC)) return fail(HALT_PRICE_WRITE)
  const price = priceOfMemory(frame, end)
  if (price == TOO_MUCH) return fail(HALT_PRICE_OVERFLOW)
  const length = load<u64>(sp, 64)
  if (length > <u64>MAX_INIT_CODE) return failWith(HALT_PRICE_INIT, <u32>length, <u32>(length >> 32))
  const words = (length + 31) >> 5
  return charge(price + words * (kind == CREATE2 ? 8 : 2))
}

/** @param sp stack position of value, offset, length, and a salt for CREATE2 */
export function opCreate<T>(frame: usize, sp: usize, kind: u32): i32 {
  const result = kind == CREATE2 ? sp + 96 : sp + 64
  const end = endOf(sp + 32, sp + 64)
  if (!payCreate(frame, sp, kind, end)) return CALL_FAILED
  emit<T>(frame)
  grow(frame, end)
  spendFuel(CREATE_TICKS)
  const length = load<u32>(sp, 64)
  spend(length >> 1)
  const code: usize = length == 0 ? 0 : <usize>load<u32>(frame, F_MEMORY) + <usize>load<u32>(sp, 32)
  const given = gas - gas / 64
  gas -= given
  returnLength = 0
  const own = <usize>load<u32>(frame, F_ACCOUNT)
  const nonce = load<u64>(own, A_NONCE)
  let refused = HALT_NONE
  if (depth >= MAX_DEPTH) refused = HALT_DEPTH
  else if (lt(own + A_BALANCE, sp)) refused = HALT_BALANCE
  else if (nonce == u64.MAX_VALUE) refused = HALT_NONCE
  if (refused != HALT_NONE) {
    if (isTraced<T>()) {
      emitEnter(kind, addressOf(frame), 0, sp, given, code, length)
      emitExit(refused, 0, 0, 0)
    }
    gas += given
    zero(result)
    return CALL_DONE
  }
  if (kind == CREATE2) addressBySalt(own + A_WORD, sp + 96, code, length)
  else addressByNonce(own + A_WORD, nonce)
  setNonce(own, nonce + 1)
  if (isTraced<T>()) emitEnter(kind, addressOf(frame), CREATED, sp, given, code, length)
  const created = account(CREATED)
  warm(created)
  if (!startAccount(created)) {
    if (isTraced<T>()) emitExit(halt, given, 0, 0)
    zero(result)
    return CALL_DONE
  }
  const mark = journalEnd
  settleAccount(own, created, sp)
  if (length == 0) {
    if (isTraced<T>()) emitExit(HALT_NONE, 0, 0, 0)
    gas += given
    copy(result, created + A_WORD)
    return CALL_DONE
  }
  const next = frame + FRAME_BYTES
  copy(next + F_CALLER, own + A_WORD)
  copy(next + F_VALUE, sp)
  store<u32>(next, 0, F_STATIC)
  startFrame(next, kind, created, given, mark)
  runInitCode(next, code, length)
  return CALL_STARTED
}

/** Checks that the address has no nonce, no code and no storage (EIP-7610). */
export function startAccount(created: usize): bool {
  if (load<u64>(created, A_NONCE) == 0 && !hasCode(created) && !hasStorage(created)) return true
  return fail(HALT_COLLISION)
}

export function settleAccount(creator: usize, created: usize, value: usize): void {
  markCreated(created)
  makeThere(created)
  setNonce(created, 1)
  transfer(creator, created, value)
}

/**
 * Sets up a frame with a copy of its init code, followed by zeros and the jump bitmap. The copy is
 * needed because other bytes follow the code in the creator's memory.
 */
export function runInitCode(frame: usize, code: usize, length: u32): void {
  const padded = (<usize>length + PADDING + 15) & ~15
  const own = reserveMemory(frame, 32 + padded + bitmapBytes(length)) + 32
  memory.copy(own, code, length)
  memory.fill(own + length, 0, padded - length)
  markJumps(own + padded, own, length)
  store<u32>(frame, <u32>own, F_CODE)
  store<u32>(frame, <u32>own, F_IP)
  store<u32>(frame, length, F_CODE_LENGTH)
  store<u32>(frame, <u32>(own + padded), F_JUMPS)
  store<u32>(frame, 0, F_ENTRY)
  store<u32>(frame, 0, F_STREAM)
  store<u32>(frame, 0, F_INPUT)
  store<u32>(frame, 0, F_INPUT_LENGTH)
  store<u32>(frame, 0, F_OUTPUT_LENGTH)
}

/**
 * Stores the code that init code returned.
 * @returns false if the frame halts; `gas` is the frame's
 */
export function deploy(created: usize, code: usize, length: u32): bool {
  if (length > 0 && load<u8>(code) == 0xef) return fail(HALT_CODE_PREFIX)
  if (!charge(200 * <u64>length)) return fail(HALT_CODE_GAS)
  if (length > MAX_CODE) return failWith(HALT_CODE_SIZE, length, 0)
  spend(length >> 1)
  if (length > 0) setCode(created, code, length)
  return true
}
