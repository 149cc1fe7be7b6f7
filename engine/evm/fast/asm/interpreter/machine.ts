/**
 * Registers that handlers share, and the limits of a run. A loop has gas in a local and stores it
 * here around a handler.
 */
import { hostPoll, hostStop, STOP_FUEL } from '../host/imports'

/** Gas of the frame. */
export let gas: i64 = 0
/** Refund counter of the run. */
export let refund: i64 = 0
/** Bytes in the return area: the output of the frame's last call. */
export let returnLength: u32 = 0
export function setReturnLength(length: u32): void {
  returnLength = length
}
/** Depth of the frame; 0 for the message itself. */
export let depth: i32 = 0
export const MAX_DEPTH: i32 = 1024

/** Block fields that were read since the session's start, as bits (evm/block-fields.ts). */
export let fieldsRead: u32 = 0
export const READ_COINBASE: u32 = 1
export const READ_TIMESTAMP: u32 = 2
export const READ_NUMBER: u32 = 4
export const READ_RANDOM: u32 = 8
export const READ_GAS_LIMIT: u32 = 16
export const READ_BASE_FEE: u32 = 32
export const READ_BLOB_BASE_FEE: u32 = 64

/** Reason why the last frame halted (HALT_*), with the numbers of its text. */
export let halt: i32 = 0
export let haltFirst: u32 = 0
export let haltSecond: u32 = 0
/** Gas that an unaffordable opcode needed beyond the gas charged so far, for tracing. */
export let unpaid: u64 = 0

export const HALT_NONE: i32 = 0
/** Numbers: the opcode and the words on the stack. */
export const HALT_STACK: i32 = 1
export const HALT_GAS: i32 = 2
/** Number: the undefined opcode. */
export const HALT_OPCODE: i32 = 3
export const HALT_JUMP: i32 = 4
/** Memory that ends beyond 64 bits. */
export const HALT_OVERFLOW: i32 = 5
export const HALT_RETURN_BOUNDS: i32 = 6
export const HALT_WRITE: i32 = 7
export const HALT_CODE_GAS: i32 = 8
/** Number: the code's size. */
export const HALT_CODE_SIZE: i32 = 9
export const HALT_CODE_PREFIX: i32 = 10
export const HALT_COLLISION: i32 = 11
export const HALT_BALANCE: i32 = 12
export const HALT_DEPTH: i32 = 13
export const HALT_NONCE: i32 = 14
/** The host knows the reason. */
export const HALT_PRECOMPILE: i32 = 15
export const HALT_REVERT: i32 = 16
// Failures of an opcode's gas computation, "out of gas: …".
export const HALT_PRICE_GAS: i32 = 17
export const HALT_PRICE_OVERFLOW: i32 = 18
export const HALT_PRICE_SENTRY: i32 = 19
export const HALT_PRICE_WRITE: i32 = 20
/** Number: the init code's size. */
export const HALT_PRICE_INIT: i32 = 21

/** Rules that differ between forks, set by the host. */
export let hasDelegations: bool = false
export let hasLeadingZeros: bool = false
export const MAX_CODE: u32 = 24576
export const MAX_INIT_CODE: u32 = 49152

export function setRules(delegations: bool, leadingZeros: bool): void {
  hasDelegations = delegations
  hasLeadingZeros = leadingZeros
}

/**
 * Sets the halt reason.
 * @returns false, for the handler to return
 */
export function fail(why: i32): bool {
  halt = why
  return false
}
export function failWith(why: i32, first: u32, second: u32): bool {
  haltFirst = first
  haltSecond = second
  return fail(why)
}

// @ts-ignore: decorator
@inline
export function charge(cost: u64): bool {
  if (<u64>gas < cost) return failUnpaid(cost)
  gas -= <i64>cost
  return true
}
function failUnpaid(cost: u64): bool {
  unpaid = cost
  return fail(HALT_GAS)
}

/** Remaining ticks of about 10 ns each; slow opcodes count as many. */
let ticks: i32 = 0
/** Ticks between two polls. */
const SLICE_TICKS: i32 = 100000
/** Calls and backward jumps that the run may still make. */
let fuel: i64 = 0

export function startBounds(maxFuel: i64): void {
  fuel = maxFuel
  ticks = SLICE_TICKS
}

/** Counts the work of a slow opcode. */
// @ts-ignore: decorator
@inline
export function spend(work: u32): void {
  ticks -= <i32>min(work, 1 << 20)
  if (ticks < 0) poll()
}

/** Counts a call, or a backward jump over code that may have run in between. */
// @ts-ignore: decorator
@inline
export function spendFuel(work: u32): void {
  fuel--
  ticks -= <i32>work
  if (ticks < 0 || fuel < 0) poll()
}

function poll(): void {
  if (fuel < 0) hostStop(STOP_FUEL)
  ticks = SLICE_TICKS
  hostPoll()
}
