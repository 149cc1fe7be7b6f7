/**
 * Events of a traced run for the host. Handlers are compiled for `u8`, which emits events, and for
 * `u64` and `u32`, which emit none.
 */
import { F_ACCOUNT, F_IP, F_SP } from '../frames/frames'
import { hostEnter, hostExit, hostStep } from './imports'
import { gas, HALT_NONE } from '../interpreter/machine'
import { A_WORD } from '../state/accounts'
import { flushText, makeChunk, writeStep } from './step-text'
import { copy, zero } from '../primitives/u256'

/**
 * Fields of a frame: sender, receiver, value, gas given or used, and whether there is a receiver.
 */
export const TOLD: usize = memory.data(112, 16)
const CALL_TO: usize = TOLD + 32
const CALL_VALUE: usize = TOLD + 64
const CALL_GAS: usize = TOLD + 96
const CALL_HAS_TO: usize = TOLD + 104

/** Gas before the opcode. */
export let stepGas: i64 = 0
/** The opcode's step has been emitted. */
let isEmitted: bool = false
let stepOp: u32 = 0
let isTouching: bool = false
let isWanted: bool = false

/**
 * Flags of an opcode: its price is dynamic and its handler emits the step; it reads or changes an
 * account or a slot.
 */
export const EMITS_ITSELF: u32 = 1
export const TOUCHES: u32 = 2
let wantsSteps: bool = false
let wantsTouches: bool = false
/** Steps are written as text here, except failing ones and those that the host handles. */
let writesSteps: bool = false
let isStorageHosts: bool = false
let fields: u32 = 0

export function setWants(steps: bool, touches: bool): void {
  wantsSteps = steps
  wantsTouches = touches
  writesSteps = false
}
/** Selects the fields of each step's text (SHOWS_*); the host writes the storage. */
export function setText(options: u32, hasStorage: bool): void {
  makeChunk()
  writesSteps = true
  isStorageHosts = hasStorage
  fields = options
}

// @ts-ignore: decorator
@inline
export function isTraced<T>(): bool {
  return sizeof<T>() == 1
}

export function startStep(frame: usize, ip: usize, sp: usize, op: u32, flags: u32): void {
  store<u32>(frame, <u32>ip, F_IP)
  store<u32>(frame, <u32>sp, F_SP)
  stepGas = gas
  stepOp = op
  isEmitted = false
  isTouching = (flags & TOUCHES) != 0
  isWanted = wantsSteps || (wantsTouches && isTouching)
}

/** Emits the step of an opcode that is paid for and about to run. */
// @ts-ignore: decorator
@inline
export function emit<T>(frame: usize): void {
  if (isTraced<T>()) emitStep(frame, HALT_NONE)
}

export function emitStep(frame: usize, halt: i32): void {
  if (isEmitted || !isWanted) return
  isEmitted = true
  if (writesSteps) {
    if (halt == HALT_NONE && !isHosts()) return writeStep(frame, stepOp, stepGas, fields)
    flushText()
  }
  hostStep(frame, stepOp, halt)
}

function isHosts(): bool {
  return isTouching && (wantsTouches || (isStorageHosts && (stepOp == SLOAD || stepOp == SSTORE)))
}
const SLOAD: u32 = 0x54
const SSTORE: u32 = 0x55

/** @param to 0 if no account is created */
export function emitEnter(kind: u32, from: usize, to: usize, value: usize, given: i64, input: usize, length: u32): void {
  copy(TOLD, from)
  if (to == 0) zero(CALL_TO)
  else copy(CALL_TO, to)
  if (value == 0) zero(CALL_VALUE)
  else copy(CALL_VALUE, value)
  store<i64>(CALL_GAS, given)
  store<u32>(CALL_HAS_TO, to == 0 ? 0 : 1)
  hostEnter(kind, input, length)
}

export function emitExit(halt: i32, used: i64, output: usize, length: u32): void {
  store<i64>(CALL_GAS, used)
  hostExit(halt, output, length)
}

/** Returns the word of the address whose storage the frame uses. */
export function addressOf(frame: usize): usize {
  return <usize>load<u32>(frame, F_ACCOUNT) + A_WORD
}
