/**
 * Functions for the host: session state by address, transactions, checkpoints, runs. Arguments are
 * at ARGUMENTS.
 */
import {
  A_BALANCE, A_FLAGS, A_NONCE, A_PRECOMPILE, A_WORD, account, clearAccount, forgetAccounts, IS_ALWAYS_WARM, IS_THERE, isEmpty, knownAccount,
  makeThere, nextTransaction, setBalance, setNonce, touch, transaction, A_DESTROYED, warm,
} from '../state/accounts'
import { startFrame, CALL, CREATE, resolve, runEntry, runPrecompile } from '../frames/calls'
import { C_LENGTH, codeOf, delegateOf, dropCode, evictCodes, setCode } from '../state/codes'
import { addressByNonce, startAccount, CREATED, runInitCode, settleAccount } from '../frames/creates'
import { HALTED, SUCCESS } from '../frames/ends'
import {
  F_CALLER, F_INPUT, F_INPUT_LENGTH, F_OUTPUT_LENGTH, F_STATIC, F_VALUE, frames, makeFrames, reserveMemory, RETURN, startMemory, trimMemory,
} from '../frames/frames'
import { AREA_BYTES, areaOf, reserve, setMaxBytes, shrink } from '../memory/heap'
import { makeMemo } from '../memory/hash'
import { ASKED, GAS, hostPoll } from './imports'
import { setSeed } from '../state/index-table'
import { forgetJournal, J_TOUCHED, journalEnd, kindAt, recordAt, ENTRY_BYTES } from '../state/journal'
import { startLogs } from '../state/logs'
import {
  depth, fail, fieldsRead, gas, halt, HALT_BALANCE, HALT_NONE, HALT_PRECOMPILE, hasDelegations, refund, returnLength, startBounds,
} from '../interpreter/machine'
import { makeMasks } from '../interpreter/opcodes'
import { run } from '../interpreter/run'
import { clearStorage, forgetSlots, setSlot as writeSlot, slot, knownSlot, warmSlot } from '../state/slots'
import { transfer } from '../state/state-ops'
import { dropText, flushText } from './step-text'
import { emitEnter, emitExit } from './trace'
import { emptyTransients } from '../state/transient'
import { add, bswapCopy, copy, eq, lt } from '../primitives/u256'
import { revertTo } from '../state/undo'
import { bytes20ToWord } from '../primitives/words'

/**
 * Arguments, big endian: 20 bytes of an address, at 32 a key of 32 bytes, at 64 a value of 32
 * bytes.
 */
export const ARGUMENTS: usize = memory.data(96, 16)
/** Words of a message: sender, receiver, value. */
export const MESSAGE: usize = memory.data(96, 16)
const WORD: usize = memory.data(32, 16)
const KEY: usize = memory.data(32, 16)
const VALUE: usize = memory.data(32, 16)
/** Calldata, followed by blob hashes. */
const INPUT: usize = memory.data(AREA_BYTES, 4)
const RETAINED_INPUT: usize = 1 << 18

/** Journal position of the transaction's start, or an earlier position reverted to since. */
export let transactionStart: usize = 0
/** Journal position from which `endTransaction` has not processed touched accounts yet. */
let touchedStart: usize = 0

/** Runs once for an instance; two random words are at ASKED. */
export function initialize(): void {
  setSeed(load<u64>(ASKED), load<u64>(ASKED, 8))
  makeFrames()
  makeMemo()
  makeMasks()
}

/** Drops accounts, slots, journal and the bits of block fields. */
export function reset(): void {
  forgetAccounts()
  forgetSlots()
  forgetJournal()
  evictCodes()
  trimMemory()
  startLogs()
  shrink(INPUT, RETAINED_INPUT)
  fieldsRead = 0
  beginTransaction()
}

/** Registers a precompiled contract at an address; `number` 0 removes it but leaves it warm. */
export function addPrecompile(number: u32, isAlwaysWarm: bool): void {
  const record = known()
  store<u32>(record, number, A_PRECOMPILE)
  if (isAlwaysWarm) store<u32>(record, load<u32>(record) | IS_ALWAYS_WARM, A_FLAGS)
}

function known(): usize {
  bytes20ToWord(WORD, ARGUMENTS)
  return knownAccount(WORD)
}

/** Returns the account's record. */
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
/** Sets the nonce to the number at GAS. */
export function putNonce(): void {
  const record = accountOf()
  const nonce = load<u64>(GAS)
  if (nonce == load<u64>(record, A_NONCE) && load<u32>(record) & IS_THERE) touch(record)
  else setNonce(record, nonce)
}
/** Sets code from the input area. */
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

/** Removes destroyed accounts, and touched accounts that are empty. */
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

/** Returns the address where the host writes `bytes` of input. */
export function inputArea(bytes: u32): usize {
  reserve(INPUT, 0, bytes)
  return areaOf(INPUT)
}

/** Prepares a run with its limits: fuel, and bytes of one frame, all frames and linear memory. */
export function prepare(fuel: f64, ofFrame: u32, ofAll: u32, linear: u32): void {
  trimMemory()
  setMaxBytes(linear)
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

/**
 * Runs the message at MESSAGE with the gas at GAS and calldata in the input area.
 * @returns SUCCESS, REVERTED or HALTED; remaining gas is at GAS
 */
export function runCall(length: u32, isTraced: bool): i32 {
  return finish(call(length, isTraced))
}

function call(length: u32, isTraced: bool): i32 {
  const from = account(MESSAGE)
  const to = account(MESSAGE + 32)
  const input = areaOf(INPUT)
  const precompile = load<u32>(to, A_PRECOMPILE)
  if (hasDelegations && precompile == 0) warmDelegate(to)
  if (isTraced) emitEnter(CALL, MESSAGE, MESSAGE + 32, MESSAGE + 64, gas, input, length)
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
    if (isTraced) emitExit(HALT_NONE, given - gas, areaOf(RETURN), returnLength)
    return SUCCESS
  }
  const entry = resolve(to)
  if (load<u32>(entry, C_LENGTH) == 0) {
    if (isTraced) emitExit(HALT_NONE, 0, 0, 0)
    return SUCCESS
  }
  const frame = frames
  startMessage(frame, CALL, to, mark)
  store<u32>(frame, <u32>input, F_INPUT)
  store<u32>(frame, length, F_INPUT_LENGTH)
  reserveMemory(frame, 0)
  runEntry(frame, entry, !isTraced)
  return run(isTraced)
}

/** Warms the account that the target delegates to (EIP-7702). */
function warmDelegate(to: usize): void {
  const delegate = delegateOf(codeOf(to))
  if (delegate == 0) return
  bytes20ToWord(WORD, delegate)
  warm(knownAccount(WORD))
}

/** Runs init code from the input area. The caller has already raised the sender's nonce. */
export function runCreate(length: u32, isTraced: bool): i32 {
  const status = create(length, isTraced)
  // A creation by the init code may have overwritten CREATED.
  copy(CREATED, made + A_WORD)
  return finish(status)
}
/** Account that the message itself creates. */
let made: usize = 0

function create(length: u32, isTraced: bool): i32 {
  const from = account(MESSAGE)
  addressByNonce(MESSAGE, load<u64>(from, A_NONCE) - 1)
  const to = account(CREATED)
  made = to
  warm(to)
  if (isTraced) emitEnter(CREATE, MESSAGE, CREATED, MESSAGE + 64, gas, areaOf(INPUT), length)
  if (lt(from + A_BALANCE, MESSAGE + 64)) return halted(HALT_BALANCE, 0, isTraced)
  const given = gas
  if (!startAccount(to)) return halted(halt, given, isTraced)
  const mark = journalEnd
  settleAccount(from, to, MESSAGE + 64)
  if (length == 0) {
    if (isTraced) emitExit(HALT_NONE, 0, 0, 0)
    return SUCCESS
  }
  const frame = frames
  startMessage(frame, CREATE, to, mark)
  runInitCode(frame, areaOf(INPUT), length)
  return run(isTraced)
}

function startMessage(frame: usize, kind: u32, owner: usize, mark: usize): void {
  copy(frame + F_CALLER, MESSAGE)
  copy(frame + F_VALUE, MESSAGE + 64)
  store<u32>(frame, 0, F_STATIC)
  store<u32>(frame, 0, F_OUTPUT_LENGTH)
  startFrame(frame, kind, owner, gas, mark)
}

/**
 * Ends a message that halted before any opcode ran.
 * @param used gas for the exit event: 0 if the sender cannot pay, although all gas is lost
 */
function halted(why: i32, used: i64, isTraced: bool): i32 {
  fail(why)
  if (isTraced) emitExit(why, used, 0, 0)
  return HALTED
}

function finish(status: i32): i32 {
  flushText()
  store<i64>(GAS, gas)
  return status
}
