/** What the host calls: state of a session by address, transactions, checkpoints, runs. Arguments stand at ARGUMENTS. */
import {
  A_BALANCE, A_FLAGS, A_NONCE, A_PRECOMPILE, A_WORD, account, clearAccount, forgetAccounts, IS_ALWAYS_WARM, IS_THERE, isEmpty, knownAccount,
  makeThere, nextTransaction, setBalance, setNonce, touch, transaction, A_DESTROYED, warm,
} from './accounts'
import { beginFrame, CALL, CREATE, resolve, runEntry, runPrecompile } from './calls'
import { C_LENGTH, codeOf, delegateOf, dropCode, evictCodes, setCode } from './codes'
import { addressByNonce, beginAccount, CREATED, runInitCode, settleAccount } from './creates'
import { HALTED, SUCCESS } from './ends'
import {
  F_CALLER, F_INPUT, F_INPUT_LENGTH, F_OUTPUT_LENGTH, F_STATIC, F_VALUE, frames, makeFrames, placeMemory, RETURN, startMemory, trimMemory,
} from './frames'
import { AREA_BYTES, areaOf, reserve, setMostBytes, shrink } from './heap'
import { makeMemo } from './hash'
import { ASKED, GAS, hostPoll } from './imports'
import { setSeed } from './index-table'
import { forgetJournal, J_TOUCHED, journalEnd, kindAt, recordAt, ENTRY_BYTES } from './journal'
import { startLogs } from './logs'
import {
  depth, fail, fieldsRead, gas, halt, HALT_BALANCE, HALT_NONE, HALT_PRECOMPILE, hasDelegations, refund, returnLength, startBounds,
} from './machine'
import { makeMasks } from './opcodes'
import { run } from './run'
import { clearStorage, forgetSlots, setSlot as writeSlot, slot, knownSlot, warmSlot } from './slots'
import { transfer } from './state-ops'
import { dropText, flushText } from './step-text'
import { tellEnter, tellExit } from './trace'
import { emptyTransients } from './transient'
import { add, bswapCopy, copy, eq, lt } from './u256'
import { revertTo } from './undo'
import { bytes20ToWord } from './words'

/** 20 bytes of an address; at 32 a key, 32 bytes; at 64 a value, 32 bytes; big endian. */
export const ARGUMENTS: usize = memory.data(96, 16)
/** Words of a message: who, to whom, with what value. */
export const MESSAGE: usize = memory.data(96, 16)
const WORD: usize = memory.data(32, 16)
const KEY: usize = memory.data(32, 16)
const VALUE: usize = memory.data(32, 16)
/** Calldata, and blob hashes behind it. */
const INPUT: usize = memory.data(AREA_BYTES, 4)
const KEPT_INPUT: usize = 1 << 18

/** Where the journal stood when the transaction began, or where it was reverted to since. */
export let transactionStart: usize = 0
/** What was touched behind it has not been looked at by an end of the transaction. */
let touchedStart: usize = 0

/** Once. Two random words stand at ASKED. */
export function initialize(): void {
  setSeed(load<u64>(ASKED), load<u64>(ASKED, 8))
  makeFrames()
  makeMemo()
  makeMasks()
}

/** Forgets accounts, slots and journal, and what was read of the block. */
export function reset(): void {
  forgetAccounts()
  forgetSlots()
  forgetJournal()
  evictCodes()
  trimMemory()
  startLogs()
  shrink(INPUT, KEPT_INPUT)
  fieldsRead = 0
  beginTransaction()
}

/** A precompiled contract at the address; `number` 0 takes it away, but not that it is warm. */
export function addPrecompile(number: u32, isAlwaysWarm: bool): void {
  const record = known()
  store<u32>(record, number, A_PRECOMPILE)
  if (isAlwaysWarm) store<u32>(record, load<u32>(record) | IS_ALWAYS_WARM, A_FLAGS)
}

function known(): usize {
  bytes20ToWord(WORD, ARGUMENTS)
  return knownAccount(WORD)
}

/** The account's record. */
export function accountOf(): usize {
  bytes20ToWord(WORD, ARGUMENTS)
  return account(WORD)
}
export function codeEntryOf(record: usize): usize {
  return codeOf(record)
}
export function slotOf(): usize {
  const owner = accountOf()
  bswapCopy(KEY, ARGUMENTS + 32)
  return slot(owner, KEY)
}
export function addBalance(): void {
  const record = accountOf()
  bswapCopy(VALUE, ARGUMENTS + 64)
  add(VALUE, VALUE, record + A_BALANCE)
  if (eq(VALUE, record + A_BALANCE) && load<u32>(record) & IS_THERE) touch(record)
  else setBalance(record, VALUE)
}
/** The nonce stands at GAS. */
export function putNonce(): void {
  const record = accountOf()
  const nonce = load<u64>(GAS)
  if (nonce == load<u64>(record, A_NONCE) && load<u32>(record) & IS_THERE) touch(record)
  else setNonce(record, nonce)
}
/** Code from the input area. */
export function putCode(length: u32): void {
  setCode(accountOf(), areaOf(INPUT), length)
}
export function putSlot(): void {
  const record = slotOf()
  const owner = accountOf()
  touch(owner)
  makeThere(owner)
  bswapCopy(VALUE, ARGUMENTS + 64)
  writeSlot(record, VALUE)
}
export function clearSlots(): void {
  clearStorage(accountOf())
}
export function warmAddress(): void {
  warm(known())
}
export function warmKey(): void {
  bswapCopy(KEY, ARGUMENTS + 32)
  warmSlot(knownSlot(known(), KEY))
}

export function beginTransaction(): void {
  nextTransaction()
  transactionStart = journalEnd
  touchedStart = journalEnd
}

/** Removes what was destroyed, and touched accounts that are empty. */
export function endTransaction(): void {
  const end = journalEnd
  for (let at = touchedStart; at < end; at += ENTRY_BYTES) {
    if (kindAt(at) != J_TOUCHED) continue
    const record = recordAt(at)
    const isDestroyed = load<u32>(record, A_DESTROYED) == transaction
    if (isDestroyed || (load<u32>(record) & IS_THERE && isEmpty(record))) remove(record)
  }
  touchedStart = journalEnd
}

function remove(record: usize): void {
  clearStorage(record)
  clearAccount(record)
  dropCode(record)
}

export function checkpoint(): usize {
  return journalEnd
}
export function revert(position: usize): void {
  revertTo(position)
  transactionStart = min(transactionStart, position)
  touchedStart = min(touchedStart, position)
}

/** Where the host writes `bytes` of input. */
export function inputArea(bytes: u32): usize {
  reserve(INPUT, 0, bytes)
  return areaOf(INPUT)
}

/** Before a run: its bounds, in steps of fuel and in bytes: of a frame, of all frames, of the linear memory. */
export function prepare(fuel: f64, ofFrame: u32, ofAll: u32, linear: u32): void {
  trimMemory()
  setMostBytes(linear)
  startBounds(fuel < 9e15 ? <i64>fuel : i64.MAX_VALUE)
  startMemory(ofFrame, ofAll)
  startLogs()
  emptyTransients()
  dropText()
  refund = 0
  returnLength = 0
  halt = HALT_NONE
  depth = -1
  gas = load<i64>(GAS)
  hostPoll()
}

/** The message at MESSAGE with the gas at GAS and calldata in the input area. SUCCESS, REVERTED, HALTED; gas left at GAS. */
export function runCall(length: u32, isTraced: bool): i32 {
  return finish(call(length, isTraced))
}

function call(length: u32, isTraced: bool): i32 {
  const from = account(MESSAGE)
  const to = account(MESSAGE + 32)
  const input = areaOf(INPUT)
  const precompile = load<u32>(to, A_PRECOMPILE)
  if (hasDelegations && precompile == 0) warmDelegate(to)
  if (isTraced) tellEnter(CALL, MESSAGE, MESSAGE + 32, MESSAGE + 64, gas, input, length)
  if (lt(from + A_BALANCE, MESSAGE + 64)) return halted(HALT_BALANCE, 0, isTraced)
  const mark = journalEnd
  transfer(from, to, MESSAGE + 64)
  if (precompile != 0) {
    const given = gas
    const isSuccess = runPrecompile(precompile, input, length, given)
    gas = load<i64>(GAS)
    if (!isSuccess) {
      revertTo(mark)
      return halted(HALT_PRECOMPILE, given, isTraced)
    }
    if (isTraced) tellExit(HALT_NONE, given - gas, areaOf(RETURN), returnLength)
    return SUCCESS
  }
  const entry = resolve(to)
  if (load<u32>(entry, C_LENGTH) == 0) {
    if (isTraced) tellExit(HALT_NONE, 0, 0, 0)
    return SUCCESS
  }
  const frame = frames
  beginMessage(frame, CALL, to, mark)
  store<u32>(frame, <u32>input, F_INPUT)
  store<u32>(frame, length, F_INPUT_LENGTH)
  placeMemory(frame, 0)
  runEntry(frame, entry, !isTraced)
  return run(isTraced)
}

/** The target's code is as near as the account that delegates to it (EIP-7702). */
function warmDelegate(to: usize): void {
  const delegate = delegateOf(codeOf(to))
  if (delegate == 0) return
  bytes20ToWord(WORD, delegate)
  warm(knownAccount(WORD))
}

/** Init code in the input area. The sender's nonce has been raised already. */
export function runCreate(length: u32, isTraced: bool): i32 {
  const status = create(length, isTraced)
  // What its init code has created stands there.
  copy(CREATED, made + A_WORD)
  return finish(status)
}
/** Account of the message's own creation. */
let made: usize = 0

function create(length: u32, isTraced: bool): i32 {
  const from = account(MESSAGE)
  addressByNonce(MESSAGE, load<u64>(from, A_NONCE) - 1)
  const to = account(CREATED)
  made = to
  warm(to)
  if (isTraced) tellEnter(CREATE, MESSAGE, CREATED, MESSAGE + 64, gas, areaOf(INPUT), length)
  if (lt(from + A_BALANCE, MESSAGE + 64)) return halted(HALT_BALANCE, 0, isTraced)
  const given = gas
  if (!beginAccount(to)) return halted(halt, given, isTraced)
  const mark = journalEnd
  settleAccount(from, to, MESSAGE + 64)
  if (length == 0) {
    if (isTraced) tellExit(HALT_NONE, 0, 0, 0)
    return SUCCESS
  }
  const frame = frames
  beginMessage(frame, CREATE, to, mark)
  runInitCode(frame, areaOf(INPUT), length)
  return run(isTraced)
}

function beginMessage(frame: usize, kind: u32, owner: usize, mark: usize): void {
  copy(frame + F_CALLER, MESSAGE)
  copy(frame + F_VALUE, MESSAGE + 64)
  store<u32>(frame, 0, F_STATIC)
  store<u32>(frame, 0, F_OUTPUT_LENGTH)
  beginFrame(frame, kind, owner, gas, mark)
}

/** Before any opcode ran. `used`: nothing where the sender could not pay, though all of it is gone. */
function halted(why: i32, used: i64, isTraced: bool): i32 {
  fail(why)
  if (isTraced) tellExit(why, used, 0, 0)
  return HALTED
}

function finish(status: i32): i32 {
  flushText()
  store<i64>(GAS, gas)
  return status
}
