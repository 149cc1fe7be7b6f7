/**
 * The interface of an EVM: sessions run messages over a state reader and give outcome, logs and the net change. Two engines stand
 * behind it: `reference` (@ethereumjs/evm) and later a compiled one. Execution never knows which runs.
 */
import type { EvmRules } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Log } from '../primitives/receipt.ts'
import type { AccessList } from '../primitives/transaction.ts'
import type { StateDiff } from '../state/diff.ts'
import type { MissingError, MissingKey, StateReader } from '../state/reader.ts'

export type BlockEnv = {
  readonly number: bigint
  /** Seconds. */
  readonly timestamp: bigint
  readonly gasLimit: bigint
  readonly baseFee: bigint
  readonly coinbase: Bytes
  readonly prevRandao: Bytes
  /** Wei per blob gas: 1 on an OP chain. */
  readonly blobBaseFee: bigint
  /** Before the merge only; 0 otherwise. */
  readonly difficulty: bigint
}
export type Message = {
  readonly from: Bytes
  /** undefined: create a contract. */
  readonly to: Bytes | undefined
  readonly value: bigint
  /** Gas left for the message, intrinsic gas already taken. */
  readonly gas: bigint
  readonly input: Bytes
  readonly origin: Bytes
  readonly gasPrice: bigint
  readonly blobHashes?: readonly Bytes[]
  /** What BASEFEE reads in place of the block's: 0 in a gasless transaction. */
  readonly baseFee?: bigint
  /** The counter of refunds before the first opcode: what authorizations give back (EIP-7702); undefined: 0. */
  readonly refund?: bigint
}
export type Outcome =
  | {
      readonly status: 'success'
      readonly gasLeft: bigint
      /** The counter at the end, with what the message began with. */
      readonly refund: bigint
      readonly output: Bytes
      readonly logs: readonly Log[]
      readonly created?: Bytes
    }
  | { readonly status: 'revert'; readonly gasLeft: bigint; readonly output: Bytes }
  /**
   * `reason` in geth's words: "out of gas", "stack underflow (0 <=> 2)", "invalid opcode: INVALID". All gas of the message is gone, unless
   * `gasLeft` says what is left of it: a creation that could not begin (nonce-limit.ts).
   */
  | { readonly status: 'halt'; readonly reason: string; readonly gasLeft?: bigint }
  | Missing
  | Stopped

/** A bound of `Limits`, or of the engine's own memory, invisible to the contract; the session is as before the run. */
export type Stopped = {
  readonly status: 'stopped'
  readonly why: 'fuel' | 'deadline' | 'memory'
}

/** The run met state that a lazily fetched source does not have yet: fetch it and run again; the session is as before the run. */
export type Missing = {
  readonly status: 'missing'
  /** The first of them in words (state/reader.ts, describeMissing). */
  readonly what: string
  /** 1 to 256 keys: all that the run asked for, or the first of them. */
  readonly missing: readonly [MissingKey, ...MissingKey[]]
}

export const missingOf = ({ what, missing }: MissingError): Missing => ({
  status: 'missing',
  what,
  missing,
})

export type Limits = {
  /** Calls, creations and jumps backward. */
  readonly fuel?: number
  /** Polled in the loop: true ends the run with 'stopped'. Reads a word of shared memory or a clock. */
  readonly isExpired?: () => boolean
  /** Bytes of EVM memory of one frame of a call. undefined, as in a block: what its gas can buy. */
  readonly memoryBytes?: number
  /**
   * True: nobody will believe what comes out of the run, which only goes on to tell what it reads. It gets LOST_GAS more at most, each frame,
   * or what takes about as long.
   */
  readonly isLost?: (() => boolean) | undefined
}
export const LOST_GAS = 1_000_000n
/** The message of a run that is lost from its begin. */
export const boundMessage = (message: Message, limits: Limits | undefined): Message =>
  message.gas > LOST_GAS && limits?.isLost?.() === true ? { ...message, gas: LOST_GAS } : message

/** What a traced run tells; an absent hook costs nothing. Hooks see the state as it is at that moment. */
export interface TraceSink {
  /**
   * A frame begins: `kind` is the opcode that makes it. Of a delegate call `from` is the contract that makes it and `to` the code; of a
   * creation `to` is the new address, undefined when it is not even begun. Calls refused for depth or balance are told too.
   */
  enter?(
    kind: string,
    from: Bytes,
    to: Bytes | undefined,
    value: bigint,
    gas: bigint,
    input: Bytes,
  ): void
  /**
   * `error` in geth's words; "execution reverted" where there is output to read. undefined too where a frame failed and nothing was taken
   * back: code that could not be paid for before Homestead.
   */
  exit?(error: string | undefined, gasUsed: bigint, output: Bytes): void
  /** Before the opcode runs. */
  step?(step: TraceStep): void
  /**
   * How an engine may write steps that it tells nobody of then. `step`, which has to be there too, hears of those that it does not write:
   * SLOAD and SSTORE where storage is shown, opcodes that fail, and all where `touch` wants to hear of them first.
   */
  readonly stepText?: StepText
  /**
   * Before an opcode that names an account or a slot runs, or fails to: SLOAD, SSTORE, BALANCE, EXTCODESIZE, EXTCODECOPY, EXTCODEHASH,
   * SELFDESTRUCT, CALL, CALLCODE, DELEGATECALL, STATICCALL, CREATE, CREATE2. In order, before `enter`, each time, warm or not.
   */
  touch?(touch: Touch): void
  /** A log was made. Logs of a frame that fails later are told as well. */
  log?(log: Log): void
}
/** Of a step, what is shown: each begins with a comma, as go-ethereum's struct log has it in JSON. */
export type StepText = {
  readonly hasStack: boolean
  readonly hasMemory: boolean
  readonly hasReturnData: boolean
  readonly hasStorage: boolean
  /** In ASCII, of any length, valid during the call; so many steps begin in it. */
  write(text: Bytes, steps: number): void
}
export type Touch = {
  readonly op: number
  /** Whose storage the frame has. */
  readonly address: Bytes
  /**
   * The account that the opcode names, or the address that CREATE or CREATE2 would make. Absent where the opcode failed before it was
   * known: a creation that failed, a stack too short (for a call: of less than five words, as go-ethereum looks at it).
   */
  readonly target?: Bytes
  /** Of the slot, 32 bytes. Absent like `target`. */
  readonly key?: Bytes
  /** Stack or gas said that the opcode will not run; a write in a static call is found with the gas. */
  readonly isFailed: boolean
}
export type TraceStep = {
  readonly pc: number
  readonly op: number
  readonly gas: bigint
  /** All of it. Of an opcode whose cost could not be computed, what is constant of it. */
  readonly cost: bigint
  /** 0 for the message itself. */
  readonly depth: number
  /** Whose storage the frame has. */
  readonly address: Bytes
  /** The counter of refunds, the step's own included. */
  readonly refund: bigint
  /** Why the opcode will not run, in geth's words, where stack and gas say so. */
  readonly error: string | undefined
  /** Top last. Valid during the hook, like the two below. */
  stack(): readonly bigint[]
  /** Whole words, not yet grown by the opcode. */
  memory(): Bytes
  /** What the last call of the frame returned. */
  returnData(): Bytes
}

export interface Session {
  account(address: Bytes): {
    readonly nonce: bigint
    readonly balance: bigint
    readonly codeHash: Bytes
  }
  /** Also of an account that is empty, which a state override can leave. */
  exists(address: Bytes): boolean
  code(address: Bytes): Bytes
  /** 32 bytes. */
  slot(address: Bytes, key: Bytes): Bytes
  addBalance(address: Bytes, wei: bigint): void
  setNonce(address: Bytes, nonce: bigint): void
  setCode(address: Bytes, code: Bytes): void
  setSlot(address: Bytes, key: Bytes, value: Bytes): void
  /** Replaces the whole storage (a state override's `state`). */
  clearStorage(address: Bytes): void
  warm(address: Bytes, keys?: readonly Bytes[]): void
  /** What is warm in the transaction, in the order in which it became so; without precompiled contracts. */
  accessed(): AccessList
  /** New warm set, original values and created set, empty transient storage; the journal goes on. */
  beginTransaction(): void
  /** Removes what was created and destroyed in the transaction, and touched accounts that are empty (EIP-161). */
  endTransaction(): void
  /**
   * The fast engine answers at once, the reference engine by a promise. The caller has raised the sender's nonce already: a contract's
   * address comes from nonce − 1; a nonce that has wrapped to 0 lets no creation begin (EIP-2681). Sender, receiver and coinbase are warm only if the caller made them so; precompiled contracts always.
   * @throws {ViewError} with the session as before the run.
   */
  run(message: Message, limits?: Limits): Outcome | Promise<Outcome>
  /** A journal position: it crosses transactions and flashblocks. */
  checkpoint(): number
  revert(checkpoint: number): void
  /** Everything touched since the checkpoint, `before` being the reader's value: what a flashblock publishes. */
  diff(since: number): StateDiff
  /** The next call or block over another state: forgets entries, keeps code. */
  reopen(reader: StateReader, block: BlockEnv): void
  /** Of the block, as bits (block-fields.ts): what runs have read since the session was opened, or may have. */
  fieldsRead(): number
  /** Whom the next runs tell; undefined: nobody. */
  setTrace(sink: TraceSink | undefined): void
  /**
   * Gives the instance back to the thread: nothing may be called afterwards. What outcomes and diffs hold stays.
   * @throws {ClosedError} as everything else does then: whoever opened the session closes it, once.
   */
  close(): void
}

/** A session was used after its end: a bug of the caller. */
export class ClosedError extends Error {
  override name = 'ClosedError'
  constructor() {
    super('an EVM session was used after its end')
  }
}

/** The engine itself failed: the session is lost, and everything it is asked but its end says so. A bug of the engine's; another engine can do the same work. */
export class TrapError extends Error {
  override name = 'TrapError'
}

/** A precompiled contract that a state override moves, or takes away: `from` is an ordinary account then. */
export type MovedPrecompile = { readonly from: Bytes; readonly to: Bytes | undefined }
export type SessionRules = EvmRules & { readonly moved?: readonly MovedPrecompile[] }

export interface Engine {
  readonly name: string
  openSession(reader: StateReader, block: BlockEnv, rules: SessionRules): Session
  /** Addresses of the precompiled contracts under these rules. */
  precompiles(rules: EvmRules): readonly Bytes[]
  /** Does the work again that this one fails at; undefined: this one does not fail. */
  readonly fallback?: Fallback
}
export type Fallback = {
  readonly engine: Engine
  /** Whoever does work again says why, once for each time. */
  readonly tell: (reason: string) => void
}
