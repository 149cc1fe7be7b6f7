/** What the host does for the engine, all of it synchronous. Arguments are pointers and 32-bit numbers. What an import throws ends the run. */

/** Ends the run for a bound that the contract cannot see (STOP_*): throws. */
// @ts-ignore: decorator
@external("host", "stop")
export declare function hostStop(why: i32): void

/** The deadline; throws when it is over. */
// @ts-ignore: decorator
@external("host", "poll")
export declare function hostPoll(): void

/** Account of the address at ASKED: 72 bytes to ANSWER. READ_* */
// @ts-ignore: decorator
@external("host", "account")
export declare function hostAccount(): i32

/** Slot at ASKED + 32 of the address at ASKED: 32 bytes to ANSWER. READ_* */
// @ts-ignore: decorator
@external("host", "slot")
export declare function hostSlot(): i32

/** Whether the reader has a slot of the address at ASKED. */
// @ts-ignore: decorator
@external("host", "hasSlots")
export declare function hostHasSlots(): i32

/** Code of the hash at ASKED; the host makes its entry and gives it. 0: missing. */
// @ts-ignore: decorator
@external("host", "code")
export declare function hostCode(): usize

/** Hash of the block `number`, 32 bytes to ANSWER. READ_* */
// @ts-ignore: decorator
@external("host", "blockHash")
export declare function hostBlockHash(low: u32, high: u32): i32

/** The precompiled contract `id` with the gas at GAS: output to the return area, gas left at GAS. Not 0: it failed. */
// @ts-ignore: decorator
@external("host", "precompile")
export declare function hostPrecompile(id: u32, input: usize, length: u32): i32

// A traced run only. `frame` is the record of the frame, see frames.ts.

/** A frame begins; what it is stands at TOLD. */
// @ts-ignore: decorator
@external("host", "enter")
export declare function hostEnter(kind: u32, input: usize, length: u32): void

/** A frame ended: HALT_*, HALT_NONE where all went well; its gas and what it used stand at TOLD. */
// @ts-ignore: decorator
@external("host", "exit")
export declare function hostExit(halt: i32, output: usize, length: u32): void

/** An opcode is about to run, or will not for `halt`. */
// @ts-ignore: decorator
@external("host", "step")
export declare function hostStep(frame: usize, op: u32, halt: i32): void

/** Steps as text: so many begin in it. */
// @ts-ignore: decorator
@external("host", "text")
export declare function hostText(at: usize, length: u32, steps: u32): void

/** The last log is made. */
// @ts-ignore: decorator
@external("host", "log")
export declare function hostLog(at: usize): void

export const READ_ABSENT: i32 = 0
export const READ_PRESENT: i32 = 1
export const READ_MISSING: i32 = 2

export const STOP_FUEL: i32 = 0
export const STOP_DEADLINE: i32 = 1
export const STOP_MEMORY: i32 = 2

/** Where host and engine hand bytes to each other: a question, an answer, a word of gas. */
export const ASKED: usize = memory.data(64, 16)
export const ANSWER: usize = memory.data(80, 16)
export const GAS: usize = memory.data(8, 8)
