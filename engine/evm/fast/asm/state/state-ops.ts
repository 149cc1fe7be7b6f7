/**
 * Opcodes that read and write accounts and slots, with the prices of EIP-2929 and EIP-2200 and the
 * refunds of EIP-3529.
 */
import {
  A_BALANCE, A_HASH, account, destroy, isCreated, isEmpty, isWarm, IS_THERE, knownAccount, setBalance, touch, warm,
} from './accounts'
import { codeOf } from './codes'
import { F_ACCOUNT, F_STATIC } from '../frames/frames'
import { ANSWER, hostBlockHash, READ_PRESENT } from '../host/imports'
import {
  charge, fail, fieldsRead, gas, HALT_NONE, HALT_PRICE_GAS, HALT_PRICE_SENTRY, HALT_PRICE_WRITE, HALT_WRITE, READ_NUMBER, refund, spend,
} from '../interpreter/machine'
import { isWarmSlot, knownSlot, originalOf, setSlot, slot, S_VALUE, warmSlot } from './slots'
import { loadTransient, storeTransient } from './transient'
import { addressOf, isTraced, emit, emitEnter, emitExit } from '../host/trace'
import { add, bswapCopy, copy, eq, hi3, isZero, set64, sub, zero } from '../primitives/u256'
import { NUMBER } from '../host/environment'

/** Surcharge of a cold address beyond the 100 of a warm one. */
export const COLD_ADDRESS: u64 = 2500
const COLD_READ_TICKS: u32 = 200
const NOTHING: usize = memory.data(32, 16)
const SUM: usize = memory.data(32, 16)

/** Charges access to the address on the stack, and `more` gas. */
export function chargeAccess(word: usize, more: u64): bool {
  const record = knownAccount(word)
  if (isWarm(record)) return charge(more)
  warm(record)
  spend(COLD_READ_TICKS)
  return charge(more + COLD_ADDRESS)
}

export function opBalance<T>(frame: usize, sp: usize): bool {
  if (!chargeAccess(sp, 0)) return false
  emit<T>(frame)
  copy(sp, account(sp) + A_BALANCE)
  return true
}

export function opExtCodeSize<T>(frame: usize, sp: usize): bool {
  if (!chargeAccess(sp, 0)) return false
  emit<T>(frame)
  set64(sp, load<u32>(codeOf(account(sp))))
  return true
}

/** An empty account has the hash 0 (EIP-1052). */
export function opExtCodeHash<T>(frame: usize, sp: usize): bool {
  if (!chargeAccess(sp, 0)) return false
  emit<T>(frame)
  const record = account(sp)
  if (isEmpty(record)) zero(sp)
  else copy(sp, record + A_HASH)
  return true
}

export function opSload<T>(frame: usize, sp: usize): bool {
  const owner = <usize>load<u32>(frame, F_ACCOUNT)
  let record = knownSlot(owner, sp)
  if (isWarmSlot(record)) {
    if (!charge(100)) return false
  } else {
    warmSlot(record)
    spend(COLD_READ_TICKS)
    if (!charge(2100)) return false
  }
  emit<T>(frame)
  record = slot(owner, sp)
  copy(sp, record + S_VALUE)
  return true
}

export function opSstore<T>(frame: usize, sp: usize): bool {
  if (load<u32>(frame, F_STATIC)) return fail(HALT_PRICE_WRITE)
  if (gas <= 2300) return fail(HALT_PRICE_SENTRY)
  const record = slot(load<u32>(frame, F_ACCOUNT), sp)
  let cost: u64 = 0
  if (!isWarmSlot(record)) {
    cost = 2100
    warmSlot(record)
    spend(COLD_READ_TICKS)
  }
  cost += priceOfChange(originalOf(record), record + S_VALUE, sp + 32)
  if (!charge(cost)) return false
  emit<T>(frame)
  if (!eq(record + S_VALUE, sp + 32)) setSlot(record, sp + 32)
  return true
}

/** Computes the price of a storage change, and updates the refund counter. */
function priceOfChange(original: usize, current: usize, value: usize): u64 {
  if (eq(current, value)) return 100
  const wasZero = isZero(original)
  if (eq(original, current)) {
    if (wasZero) return 20000
    if (isZero(value)) refund += 4800
    return 2900
  }
  if (!wasZero) {
    if (isZero(current)) refund -= 4800
    else if (isZero(value)) refund += 4800
  }
  if (eq(original, value)) refund += wasZero ? 19900 : 2800
  return 100
}

export function opTload(frame: usize, sp: usize): void {
  loadTransient(sp, load<u32>(frame, F_ACCOUNT), sp)
}

export function opTstore(frame: usize, sp: usize): bool {
  if (load<u32>(frame, F_STATIC)) return fail(HALT_WRITE)
  storeTransient(load<u32>(frame, F_ACCOUNT), sp, sp + 32)
  return true
}

/** Only the 256 blocks before the current one have a hash. */
export function opBlockHash(sp: usize): void {
  const number = load<u64>(sp)
  const current = load<u64>(NUMBER)
  fieldsRead |= READ_NUMBER
  if (hi3(sp) != 0 || number >= current || current - number > 256) return zero(sp)
  spend(COLD_READ_TICKS)
  if (hostBlockHash(<u32>number, <u32>(number >> 32)) == READ_PRESENT) bswapCopy(sp, ANSWER)
  else zero(sp)
}

/**
 * Destroys only accounts created in the same transaction (EIP-6780), but always moves the balance.
 */
export function opSelfdestruct<T>(frame: usize, sp: usize): bool {
  if (load<u32>(frame, F_STATIC)) return fail(HALT_PRICE_WRITE)
  const own = <usize>load<u32>(frame, F_ACCOUNT)
  const heir = knownAccount(sp)
  let cost: u64 = 0
  if (!isWarm(heir)) {
    warm(heir)
    spend(COLD_READ_TICKS)
    cost = 2600
    if (<u64>gas < cost) return fail(HALT_PRICE_GAS)
  }
  if (!isZero(own + A_BALANCE) && isEmpty(account(sp))) cost += 25000
  if (!charge(cost)) return false
  emit<T>(frame)
  account(sp)
  if (isTraced<T>()) {
    emitEnter(0xff, addressOf(frame), sp, own + A_BALANCE, 0, 0, 0)
    emitExit(HALT_NONE, 0, 0, 0)
  }
  const isNew = isCreated(own)
  if (own != heir) inherit(own, heir)
  else if (isNew) setBalance(own, NOTHING)
  if (isNew) destroy(own)
  return true
}

/** Transfers a value. A transfer of 0 touches an empty receiver (EIP-161). */
export function transfer(from: usize, to: usize, value: usize): void {
  if (isZero(value)) return touchEmpty(to)
  sub(SUM, from + A_BALANCE, value)
  setBalance(from, SUM)
  add(SUM, to + A_BALANCE, value)
  setBalance(to, SUM)
}

/** Transfers the whole balance. */
function inherit(from: usize, to: usize): void {
  if (isZero(from + A_BALANCE)) return touchEmpty(to)
  add(SUM, to + A_BALANCE, from + A_BALANCE)
  setBalance(to, SUM)
  setBalance(from, NOTHING)
}

export function touchEmpty(record: usize): void {
  if (load<u32>(record) & IS_THERE && isEmpty(record)) touch(record)
}
