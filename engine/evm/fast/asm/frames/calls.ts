/**
 * CALL, CALLCODE, DELEGATECALL, STATICCALL: the price as in go-ethereum, and the start of the
 * frame.
 */
import { A_BALANCE, A_PRECOMPILE, A_WORD, account, isEmpty, isWarm, knownAccount, warm } from '../state/accounts'
import { C_BYTES, C_LENGTH, codeOf, delegateOf, jumpsOf } from '../state/codes'
import {
  F_ACCOUNT, F_CALLER, F_CODE, F_CODE_LENGTH, F_ENTRY, F_GAS, F_GIVEN, F_INPUT, F_INPUT_LENGTH, F_IP, F_JOURNAL, F_JUMPS, F_KIND, F_LOGS,
  F_MEMORY, F_OUTPUT, F_OUTPUT_LENGTH, F_REFUND, F_SP, F_STACK, F_STATIC, F_STREAM, F_VALUE, FRAME_BYTES, grow, reserveMemory, RETURN, stackOf,
  STACK_BYTES,
} from './frames'
import { areaOf } from '../memory/heap'
import { GAS, hostPrecompile } from '../host/imports'
import { journalEnd } from '../state/journal'
import { logsEnd } from '../state/logs'
import {
  charge, depth, fail, gas, HALT_BALANCE, HALT_DEPTH, HALT_NONE, HALT_OVERFLOW, HALT_PRECOMPILE, HALT_PRICE_GAS, HALT_PRICE_OVERFLOW,
  HALT_PRICE_WRITE, hasDelegations, MAX_DEPTH, refund, returnLength, spend, spendFuel,
} from '../interpreter/machine'
import { BEYOND, endOf, priceOfMemory, TOO_MUCH } from '../memory/memory-ops'
import { COLD_ADDRESS, touchEmpty, transfer } from '../state/state-ops'
import { T_FIRST } from '../translation/stream'
import { addressOf, isTraced, emit, emitEnter, emitExit } from '../host/trace'
import { streamFor } from '../translation/translate'
import { copy, hi3, isZero, lt, set64, zero } from '../primitives/u256'
import { revertTo } from '../state/undo'
import { bytes20ToWord } from '../primitives/words'

export const CREATE: u32 = 0xf0
export const CALL: u32 = 0xf1
export const CALLCODE: u32 = 0xf2
export const DELEGATECALL: u32 = 0xf4
export const CREATE2: u32 = 0xf5
export const STATICCALL: u32 = 0xfa

/** Results of an opcode that may start a frame: the caller halts. */
export const CALL_FAILED: i32 = 0
/** The result is on the stack. */
export const CALL_DONE: i32 = 1
/** The next frame is to run. */
export const CALL_STARTED: i32 = 2

const CALL_TICKS: u32 = 50
const DELEGATE: usize = memory.data(32, 16)
/** Gas for the frame, set by `payCall`. */
let given: i64 = 0

/** Charges the call's cost and the gas for its frame. */
function payCall(frame: usize, sp: usize, kind: u32, end: u64): bool {
  const hasValue = (kind == CALL || kind == CALLCODE) && !isZero(sp + 64)
  const isForbidden = kind == CALL && hasValue && load<u32>(frame, F_STATIC) != 0
  if (isForbidden && hasDelegations) return fail(HALT_PRICE_WRITE)
  const target = knownAccount(sp + 32)
  let cost: u64 = 0
  if (!isWarm(target)) {
    warm(target)
    cost = COLD_ADDRESS
    if (<u64>gas < cost) return fail(HALT_PRICE_GAS)
  }
  if (isForbidden) return fail(HALT_PRICE_WRITE)
  const price = priceOfMemory(frame, end)
  if (price == TOO_MUCH) return fail(HALT_PRICE_OVERFLOW)
  cost += price + (hasValue ? 9000 : 0)
  if ((kind == CALL || hasDelegations) && <u64>gas < cost) return fail(HALT_PRICE_GAS)
  if (kind == CALL && hasValue && isEmpty(account(sp + 32))) cost += 25000
  if (hasDelegations) {
    if (<u64>gas < cost) return fail(HALT_PRICE_GAS)
    const delegate = delegateOf(codeOf(account(sp + 32)))
    if (delegate != 0) {
      bytes20ToWord(DELEGATE, delegate)
      const other = knownAccount(DELEGATE)
      cost += isWarm(other) ? 100 : 100 + COLD_ADDRESS
      warm(other)
      if (<u64>gas < cost) return fail(HALT_PRICE_GAS)
    }
  }
  // A negative rest becomes a large number here, because go-ethereum's is unsigned too. The sum is
  // found too large below.
  const left = <u64>gas - cost
  const limit = left - left / 64
  const wanted = load<u64>(sp)
  const part = hi3(sp) != 0 || wanted > limit ? limit : wanted
  given = <i64>part
  if (<u64>gas < cost) return charge(max(cost + part, cost))
  return charge(cost + part)
}

export function opCall<T>(frame: usize, sp: usize, kind: u32): i32 {
  const hasValue = kind == CALL || kind == CALLCODE
  const args = hasValue ? sp + 96 : sp + 64
  const result = args + 96
  const inputEnd = endOf(args, args + 32)
  const outputEnd = endOf(args + 64, args + 96)
  const end = max(inputEnd, outputEnd)
  if (end == BEYOND) {
    fail(HALT_OVERFLOW)
    return CALL_FAILED
  }
  if (!payCall(frame, sp, kind, end)) return CALL_FAILED
  emit<T>(frame)
  grow(frame, end)
  spendFuel(CALL_TICKS)
  const value = sp + 64
  if (hasValue && !isZero(value)) given += 2300
  const length = load<u32>(args, 32)
  const input: usize = length == 0 ? 0 : <usize>load<u32>(frame, F_MEMORY) + <usize>load<u32>(args)
  if (isTraced<T>()) {
    const ofCaller = kind == DELEGATECALL ? frame + F_VALUE : 0
    emitEnter(kind, addressOf(frame), sp + 32, hasValue ? value : ofCaller, given, input, length)
  }
  returnLength = 0
  const own = <usize>load<u32>(frame, F_ACCOUNT)
  if (depth >= MAX_DEPTH) return refuse<T>(result, HALT_DEPTH)
  if (hasValue && lt(own + A_BALANCE, value)) return refuse<T>(result, HALT_BALANCE)
  const mark = journalEnd
  const precompile = load<u32>(knownAccount(sp + 32), A_PRECOMPILE)
  let target: usize = 0
  if (precompile == 0 || (kind == CALL && !isZero(value))) {
    target = account(sp + 32)
    if (kind == CALL) transfer(own, target, value)
    else if (kind == STATICCALL) touchEmpty(target)
  }
  if (precompile != 0) return callPrecompile<T>(frame, args, precompile, mark)
  const entry = resolve(target)
  if (load<u32>(entry, C_LENGTH) == 0) {
    gas += given
    if (isTraced<T>()) emitExit(HALT_NONE, 0, 0, 0)
    set64(result, 1)
    return CALL_DONE
  }
  const next = frame + FRAME_BYTES
  if (kind == DELEGATECALL) {
    copy(next + F_CALLER, frame + F_CALLER)
    copy(next + F_VALUE, frame + F_VALUE)
  } else {
    copy(next + F_CALLER, own + A_WORD)
    if (hasValue) copy(next + F_VALUE, value)
    else zero(next + F_VALUE)
  }
  store<u32>(next, kind == STATICCALL ? 1 : load<u32>(frame, F_STATIC), F_STATIC)
  store<u32>(next, <u32>input, F_INPUT)
  store<u32>(next, length, F_INPUT_LENGTH)
  store<u32>(next, load<u32>(args, 64), F_OUTPUT)
  store<u32>(next, load<u32>(args, 96), F_OUTPUT_LENGTH)
  startFrame(next, kind, kind == CALLCODE || kind == DELEGATECALL ? own : target, given, mark)
  reserveMemory(next, 0)
  runEntry(next, entry, !isTraced<T>())
  return CALL_STARTED
}

/** Returns the frame's gas to the caller of a call that cannot be made. */
function refuse<T>(result: usize, why: i32): i32 {
  gas += given
  if (isTraced<T>()) emitExit(why, 0, 0, 0)
  zero(result)
  return CALL_DONE
}

/**
 * @param args stack position of the offsets and lengths of input and output, followed by the result
 */
function callPrecompile<T>(frame: usize, args: usize, precompile: u32, mark: usize): i32 {
  const length = load<u32>(args, 32)
  const base = <usize>load<u32>(frame, F_MEMORY)
  const input: usize = length == 0 ? 0 : base + <usize>load<u32>(args)
  const forThis = given
  const isSuccess = runPrecompile(precompile, input, length, forThis)
  if (isTraced<T>()) emitExit(isSuccess ? HALT_NONE : HALT_PRECOMPILE, forThis - load<i64>(GAS), areaOf(RETURN), returnLength)
  const result = args + 96
  if (!isSuccess) {
    revertTo(mark)
    zero(result)
    return CALL_DONE
  }
  gas += load<i64>(GAS)
  const wanted = min(load<u32>(args, 96), returnLength)
  if (wanted > 0) memory.copy(base + <usize>load<u32>(args, 64), areaOf(RETURN), wanted)
  set64(result, 1)
  return CALL_DONE
}

/**
 * Runs a precompiled contract. Remaining gas is at GAS and the output in the return area; a failed
 * contract has neither.
 */
export function runPrecompile(precompile: u32, input: usize, length: u32, forIt: i64): bool {
  store<i64>(GAS, forIt)
  returnLength = 0
  spend(100)
  if (hostPrecompile(precompile, input, length) == 0) return true
  store<i64>(GAS, 0)
  returnLength = 0
  return false
}

/**
 * Returns the code that runs for an account: its own, or its delegate's, resolved once (EIP-7702).
 */
export function resolve(record: usize): usize {
  const entry = codeOf(record)
  if (!hasDelegations) return entry
  const delegate = delegateOf(entry)
  if (delegate == 0) return entry
  bytes20ToWord(DELEGATE, delegate)
  return codeOf(account(DELEGATE))
}

/** Initializes the fields that all kinds of frames share, and increments `depth`. */
export function startFrame(frame: usize, kind: u32, owner: usize, forIt: i64, mark: usize): void {
  depth++
  const stack = stackOf(depth) + STACK_BYTES
  store<u32>(frame, <u32>stack, F_STACK)
  store<u32>(frame, <u32>stack, F_SP)
  store<i64>(frame, forIt, F_GAS)
  store<i64>(frame, forIt, F_GIVEN)
  store<u32>(frame, kind, F_KIND)
  store<u32>(frame, <u32>owner, F_ACCOUNT)
  store<u32>(frame, <u32>mark, F_JOURNAL)
  store<u32>(frame, <u32>logsEnd, F_LOGS)
  store<i64>(frame, refund, F_REFUND)
}

/**
 * Sets the code of a frame.
 * @param mayStream whether the frame may run on a translation of the code
 */
export function runEntry(frame: usize, entry: usize, mayStream: bool): void {
  store<u32>(frame, <u32>(entry + C_BYTES), F_CODE)
  const stream: usize = mayStream ? streamFor(entry) : 0
  store<u32>(frame, <u32>stream, F_STREAM)
  store<u32>(frame, stream != 0 ? load<u32>(stream, T_FIRST) : <u32>(entry + C_BYTES), F_IP)
  store<u32>(frame, load<u32>(entry, C_LENGTH), F_CODE_LENGTH)
  store<u32>(frame, <u32>entry, F_ENTRY)
  store<u32>(frame, <u32>jumpsOf(entry), F_JUMPS)
}
