/** Registers of the machine that handlers share, and the bounds of a run. A loop keeps gas in a local and puts it here around a handler. */
import { hostPoll, hostStop, STOP_FUEL } from './imports'

/** Gas of the frame. */
export let gas: i64 = 0
/** Counter of refunds of the run. */
export let refund: i64 = 0
/** Bytes in the return area: what the frame's last call gave back. */
export let returnLength: u32 = 0
export function setReturnLength(length: u32): void {
  returnLength = length
}
/** Of the frame; 0 for the message itself. */
export let depth: i32 = 0
export const MOST_DEPTH: i32 = 1024

/** Fields of the block that were read since the session began, a bit each (evm/block-fields.ts). */
export let fieldsRead: u32 = 0
export const READ_COINBASE: u32 = 1
export const READ_TIMESTAMP: u32 = 2
export const READ_NUMBER: u32 = 4
export const READ_RANDOM: u32 = 8
export const READ_GAS_LIMIT: u32 = 16
export const READ_BASE_FEE: u32 = 32
export const READ_BLOB_BASE_FEE: u32 = 64

/** Why the last frame halted (HALT_*), with the numbers that its words tell. */
export let halt: i32 = 0
export let haltFirst: u32 = 0
export let haltSecond: u32 = 0
/** Of the opcode that could not be paid: what it asked for beside what was paid. For tracing. */
export let unpaid: u64 = 0

export const HALT_NONE: i32 = 0
/** Of the stack: the opcode and how much is on it. */
export const HALT_STACK: i32 = 1
export const HALT_GAS: i32 = 2
/** No such opcode: its number. */
export const HALT_OPCODE: i32 = 3
export const HALT_JUMP: i32 = 4
/** Memory that ends beyond 64 bits. */
export const HALT_OVERFLOW: i32 = 5
export const HALT_RETURN_BOUNDS: i32 = 6
export const HALT_WRITE: i32 = 7
export const HALT_CODE_GAS: i32 = 8
/** Size. */
export const HALT_CODE_SIZE: i32 = 9
export const HALT_CODE_PREFIX: i32 = 10
export const HALT_COLLISION: i32 = 11
export const HALT_BALANCE: i32 = 12
export const HALT_DEPTH: i32 = 13
export const HALT_NONCE: i32 = 14
/** The host knows why. */
export const HALT_PRECOMPILE: i32 = 15
export const HALT_REVERT: i32 = 16
// What the price of an opcode finds, "out of gas: …".
export const HALT_PRICE_GAS: i32 = 17
export const HALT_PRICE_OVERFLOW: i32 = 18
export const HALT_PRICE_SENTRY: i32 = 19
export const HALT_PRICE_WRITE: i32 = 20
/** Size. */
export const HALT_PRICE_INIT: i32 = 21

/** Forks differ in these; set by the host. */
export let hasDelegations: bool = false
export let hasLeadingZeros: bool = false
export const MOST_CODE: u32 = 24576
export const MOST_INIT_CODE: u32 = 49152

export function setRules(delegations: bool, leadingZeros: bool): void {
  hasDelegations = delegations
  hasLeadingZeros = leadingZeros
}

/** False, for the handler to return. */
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

/** Some 10 ns each: opcodes that take long count as many. */
let ticks: i32 = 0
/** Between two looks at the bounds. */
const SLICE_TICKS: i32 = 100000
/** Calls and jumps backward that the run may still make. */
let fuel: i64 = 0

export function startBounds(mostFuel: i64): void {
  fuel = mostFuel
  ticks = SLICE_TICKS
}

/** Work of an opcode that takes longer than others. */
// @ts-ignore: decorator
@inline
export function spend(work: u32): void {
  ticks -= <i32>min(work, 1 << 20)
  if (ticks < 0) look()
}

/** A call, or a jump backward over code that may have run since. */
// @ts-ignore: decorator
@inline
export function spendFuel(work: u32): void {
  fuel--
  ticks -= <i32>work
  if (ticks < 0 || fuel < 0) look()
}

function look(): void {
  if (fuel < 0) hostStop(STOP_FUEL)
  ticks = SLICE_TICKS
  hostPoll()
}
