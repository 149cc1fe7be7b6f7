/**
 * Synchronous functions of the host. Arguments are pointers and 32-bit numbers. An error that an
 * import throws ends the run.
 */

/** Ends the run for a limit that the contract cannot see (STOP_*), by throwing. */
// @ts-ignore: decorator
@external("host", "stop")
export declare function hostStop(why: i32): void

/** Polls the deadline; throws if it has passed. */
// @ts-ignore: decorator
@external("host", "poll")
export declare function hostPoll(): void

/** Reads the account of the address at ASKED, 72 bytes, to ANSWER; returns READ_*. */
// @ts-ignore: decorator
@external("host", "account")
export declare function hostAccount(): i32

/** Reads the slot at ASKED + 32 of the address at ASKED, 32 bytes, to ANSWER; returns READ_*. */
// @ts-ignore: decorator
@external("host", "slot")
export declare function hostSlot(): i32

/** Returns whether the reader has a slot of the address at ASKED. */
// @ts-ignore: decorator
@external("host", "hasSlots")
export declare function hostHasSlots(): i32

/**
 * Makes an entry of the code with the hash at ASKED and returns its pointer; 0 if the code is
 * missing.
 */
// @ts-ignore: decorator
@external("host", "code")
export declare function hostCode(): usize

/** Reads the hash of a block, 32 bytes, to ANSWER; returns READ_*. */
// @ts-ignore: decorator
@external("host", "blockHash")
export declare function hostBlockHash(low: u32, high: u32): i32

/**
 * Runs precompiled contract `id` with the gas at GAS. Output goes to the return area, remaining gas
 * to GAS. Any result but 0 is a failure.
 */
// @ts-ignore: decorator
@external("host", "precompile")
export declare function hostPrecompile(id: u32, input: usize, length: u32): i32

// The following imports are used by traced runs only. `frame` is a frame's record (frames.ts).

/** A frame starts; its fields are at TOLD. */
// @ts-ignore: decorator
@external("host", "enter")
export declare function hostEnter(kind: u32, input: usize, length: u32): void

/** A frame ended with HALT_*, or HALT_NONE on success. Its used gas is at TOLD. */
// @ts-ignore: decorator
@external("host", "exit")
export declare function hostExit(halt: i32, output: usize, length: u32): void

/** An opcode is about to run, or fails with `halt`. */
// @ts-ignore: decorator
@external("host", "step")
export declare function hostStep(frame: usize, op: u32, halt: i32): void

/** Text of steps; `steps` of them start in the text. */
// @ts-ignore: decorator
@external("host", "text")
export declare function hostText(at: usize, length: u32, steps: u32): void

/** A log was made. */
// @ts-ignore: decorator
@external("host", "log")
export declare function hostLog(at: usize): void

export const READ_ABSENT: i32 = 0
export const READ_PRESENT: i32 = 1
export const READ_MISSING: i32 = 2

export const STOP_FUEL: i32 = 0
export const STOP_DEADLINE: i32 = 1
export const STOP_MEMORY: i32 = 2

/** Buffers between host and engine: arguments, response, and gas. */
export const ASKED: usize = memory.data(64, 16)
export const ANSWER: usize = memory.data(80, 16)
export const GAS: usize = memory.data(8, 8)
