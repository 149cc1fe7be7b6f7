/** What a traced run tells the host. Handlers are compiled twice: for `u8` they tell, for `u64` nothing is left of it. */
import { F_ACCOUNT, F_IP, F_SP } from './frames'
import { hostEnter, hostExit, hostStep } from './imports'
import { gas, HALT_NONE } from './machine'
import { A_WORD } from './accounts'
import { flushText, makeChunk, writeStep } from './step-text'
import { copy, zero } from './u256'

/** Of a frame: who, to whom, with what value, with how much gas or having used how much; whether there is a receiver. */
export const TOLD: usize = memory.data(112, 16)
const TOLD_TO: usize = TOLD + 32
const TOLD_VALUE: usize = TOLD + 64
const TOLD_GAS: usize = TOLD + 96
const TOLD_HAS_TO: usize = TOLD + 104

/** Gas before the opcode. */
export let stepGas: i64 = 0
/** The opcode has been told of. */
let isTold: bool = false
let stepOp: u32 = 0
let isTouching: bool = false
let isWanted: bool = false

/** Flags of an opcode: it has a price to compute and is told of afterwards; it reads or changes an account or a slot. */
export const TELLS_ITSELF: u32 = 1
export const TOUCHES: u32 = 2
let wantsSteps: bool = false
let wantsTouches: bool = false
/** Steps are written here, but for those that fail and those that the host takes part in. */
let writesSteps: bool = false
let isStorageHosts: bool = false
let shows: u32 = 0

export function setWants(steps: bool, touches: bool): void {
  wantsSteps = steps
  wantsTouches = touches
  writesSteps = false
}
/** Of wanted steps: what of each is shown (SHOWS_*), the storage by the host. */
export function setText(shown: u32, isStorageShown: bool): void {
  makeChunk()
  writesSteps = true
  isStorageHosts = isStorageShown
  shows = shown
}

// @ts-ignore: decorator
@inline
export function isTraced<T>(): bool {
  return sizeof<T>() == 1
}

export function beginStep(frame: usize, ip: usize, sp: usize, op: u32, flags: u32): void {
  store<u32>(frame, <u32>ip, F_IP)
  store<u32>(frame, <u32>sp, F_SP)
  stepGas = gas
  stepOp = op
  isTold = false
  isTouching = (flags & TOUCHES) != 0
  isWanted = wantsSteps || (wantsTouches && isTouching)
}

/** The opcode is paid for and about to run. */
// @ts-ignore: decorator
@inline
export function tell<T>(frame: usize): void {
  if (isTraced<T>()) tellStep(frame, HALT_NONE)
}

export function tellStep(frame: usize, halt: i32): void {
  if (isTold || !isWanted) return
  isTold = true
  if (writesSteps) {
    if (halt == HALT_NONE && !isHosts()) return writeStep(frame, stepOp, stepGas, shows)
    flushText()
  }
  hostStep(frame, stepOp, halt)
}

function isHosts(): bool {
  return isTouching && (wantsTouches || (isStorageHosts && (stepOp == SLOAD || stepOp == SSTORE)))
}
const SLOAD: u32 = 0x54
const SSTORE: u32 = 0x55

/** `to`: 0 where nothing is begun. */
export function tellEnter(kind: u32, from: usize, to: usize, value: usize, given: i64, input: usize, length: u32): void {
  copy(TOLD, from)
  if (to == 0) zero(TOLD_TO)
  else copy(TOLD_TO, to)
  if (value == 0) zero(TOLD_VALUE)
  else copy(TOLD_VALUE, value)
  store<i64>(TOLD_GAS, given)
  store<u32>(TOLD_HAS_TO, to == 0 ? 0 : 1)
  hostEnter(kind, input, length)
}

export function tellExit(halt: i32, used: i64, output: usize, length: u32): void {
  store<i64>(TOLD_GAS, used)
  hostExit(halt, output, length)
}

/** Word of the address whose storage the frame has. */
export function addressOf(frame: usize): usize {
  return <usize>load<u32>(frame, F_ACCOUNT) + A_WORD
}
