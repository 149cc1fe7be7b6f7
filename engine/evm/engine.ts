/**
 * The interface of an EVM. A session runs messages over a state reader and returns outcome, logs
 * and net change. The engines are `fast` (our WebAssembly) and `reference` (@ethereumjs/evm);
 * execution does not depend on the choice.
 */
import type { EvmRules } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Log } from '../primitives/receipt.ts'
import type { AccessList } from '../primitives/transaction.ts'
import type { StateDiff } from '../state/diff.ts'
import type { MissingError, MissingKey, StateReader } from '../state/reader.ts'

export type BlockEnv = {
  readonly number: bigint
  /** Unix time in seconds. */
  readonly timestamp: bigint
  readonly gasLimit: bigint
  readonly baseFee: bigint
  readonly coinbase: Bytes
  readonly prevRandao: Bytes
  /** Wei per blob gas; an OP chain always has 1. */
  readonly blobBaseFee: bigint
  /** Difficulty of a block before the merge, otherwise 0. */
  readonly difficulty: bigint
}
export type Message = {
  readonly from: Bytes
  /** undefined creates a contract. */
  readonly to: Bytes | undefined
  readonly value: bigint
  /** Gas for the message after the intrinsic gas is deducted. */
  readonly gas: bigint
  readonly input: Bytes
  readonly origin: Bytes
  readonly gasPrice: bigint
  readonly blobHashes?: readonly Bytes[]
  /** Value that BASEFEE reads instead of the block's base fee: 0 in a gasless transaction. */
  readonly baseFee?: bigint
  /**
   * Refund counter before the first opcode: the refunds of authorizations (EIP-7702). undefined
   * means 0.
   */
  readonly refund?: bigint
}
export type Outcome =
  | {
      readonly status: 'success'
      readonly gasLeft: bigint
      /** Refund counter at the end, including the message's initial `refund`. */
      readonly refund: bigint
      readonly output: Bytes
      readonly logs: readonly Log[]
      readonly created?: Bytes
    }
  | { readonly status: 'revert'; readonly gasLeft: bigint; readonly output: Bytes }
  /**
   * `reason` has geth's words: "out of gas", "stack underflow (0 <=> 2)", "invalid opcode:
   * INVALID". A halt uses up all gas of the message, unless `gasLeft` is set. Only a creation that
   * could not start sets `gasLeft` (nonce-limit.ts).
   */
  | { readonly status: 'halt'; readonly reason: string; readonly gasLeft?: bigint }
  | Missing
  | Stopped

/**
 * A limit of `Limits` or of the engine's own memory ended the run; the contract cannot see it. The
 * session is as before the run.
 */
export type Stopped = {
  readonly status: 'stopped'
  readonly why: 'fuel' | 'deadline' | 'memory'
}

/**
 * The run read state that a lazily fetched source does not have yet. The caller fetches it and runs
 * again; the session is as before the run.
 */
export type Missing = {
  readonly status: 'missing'
  /** Description of the first missing key (state/reader.ts, describeMissing). */
  readonly what: string
  /** 1 to 256 missing keys: all that the run read, or the first 256 of them. */
  readonly missing: readonly [MissingKey, ...MissingKey[]]
}

export const missingOf = ({ what, missing }: MissingError): Missing => ({
  status: 'missing',
  what,
  missing,
})

export type Limits = {
  /** Budget of calls, creations and backward jumps. */
  readonly fuel?: number
  /**
   * Polled in the loop; true ends the run with 'stopped'. It reads a word of shared memory or a
   * clock.
   */
  readonly isExpired?: () => boolean
  /**
   * Maximum bytes of EVM memory of one frame of a call. undefined, as in a block, leaves the limit
   * to gas.
   */
  readonly memoryBytes?: number
  /**
   * True once state was missing, so that the run's result will be discarded. The run continues only
   * to find further reads. Each frame then gets at most LOST_GAS more gas, or about as much time.
   */
  readonly isLost?: (() => boolean) | undefined
}
export const LOST_GAS = 1_000_000n
/** Caps the gas of a message whose run is lost from the start. */
export const boundMessage = (message: Message, limits: Limits | undefined): Message =>
  message.gas > LOST_GAS && limits?.isLost?.() === true ? { ...message, gas: LOST_GAS } : message

/**
 * Receives the events of a traced run. An absent hook costs nothing; each hook sees the current
 * state.
 */
export interface TraceSink {
  /**
   * A frame starts; `kind` is the opcode that makes it. In a delegate call `from` is the calling
   * contract and `to` is the code's address. In a creation `to` is the new address, or undefined if
   * the creation cannot start. Calls refused for depth or balance are reported too.
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
   * A frame ends; `error` has geth's words. Among failed frames only "execution reverted" has
   * output. `error` is also undefined for code that could not be paid for before Homestead, because
   * that failure reverts nothing.
   */
  exit?(error: string | undefined, gasUsed: bigint, output: Bytes): void
  /** Called before the opcode runs. */
  step?(step: TraceStep): void
  /**
   * Lets an engine write steps as text instead of calling `step` for each. `step` must be present
   * too. It receives only steps that the engine does not write. Those are SLOAD and SSTORE if
   * storage is included, and failing opcodes. If `touch` is present, its opcodes are among them.
   */
  readonly stepText?: StepText
  /**
   * Called before an opcode that names an account or a slot runs or fails. The opcodes are SLOAD,
   * SSTORE, BALANCE, EXTCODESIZE, EXTCODECOPY, EXTCODEHASH, SELFDESTRUCT, and all calls and
   * creations. Calls come in order, before `enter`, for warm and cold targets alike.
   */
  touch?(touch: Touch): void
  /** A log was made; logs of a frame that fails later are reported too. */
  log?(log: Log): void
}
/**
 * The optional fields of a step that the engine writes. Each step starts with a comma and has the
 * JSON form of go-ethereum's struct log.
 */
export type StepText = {
  readonly hasStack: boolean
  readonly hasMemory: boolean
  readonly hasReturnData: boolean
  readonly hasStorage: boolean
  /**
   * Receives ASCII text of any length that is valid only during the call.
   * @param steps number of steps that start in `text`
   */
  write(text: Bytes, steps: number): void
}
export type Touch = {
  readonly op: number
  /** Address of the contract whose storage the frame uses. */
  readonly address: Bytes
  /**
   * The account that the opcode names, or the address that CREATE or CREATE2 would make. It is
   * absent for a failed creation and for a stack too short to hold it. A call needs five words on
   * the stack, as in go-ethereum.
   */
  readonly target?: Bytes
  /** The slot's key, 32 bytes; absent in the same cases as `target`. */
  readonly key?: Bytes
  /**
   * True if stack or gas checks prevent the opcode. A write in a static call is found by the gas
   * check.
   */
  readonly isFailed: boolean
}
export type TraceStep = {
  readonly pc: number
  readonly op: number
  readonly gas: bigint
  /** Total cost of the opcode, or its constant part if the total could not be computed. */
  readonly cost: bigint
  /** 0 for the frame of the message itself. */
  readonly depth: number
  /** Address of the contract whose storage the frame uses. */
  readonly address: Bytes
  /** Refund counter, including the refund of this step. */
  readonly refund: bigint
  /** Reason in geth's words if stack or gas checks prevent the opcode. */
  readonly error: string | undefined
  /** The stack with its top last; like `memory` and `returnData`, valid only during the hook. */
  stack(): readonly bigint[]
  /** Memory in whole words, before the opcode expands it. */
  memory(): Bytes
  /** Return data of the frame's last call. */
  returnData(): Bytes
}

export interface Session {
  account(address: Bytes): {
    readonly nonce: bigint
    readonly balance: bigint
    readonly codeHash: Bytes
  }
  /** True also for an empty account, which a state override can leave behind. */
  exists(address: Bytes): boolean
  code(address: Bytes): Bytes
  /** Value of a slot, 32 bytes. */
  slot(address: Bytes, key: Bytes): Bytes
  addBalance(address: Bytes, wei: bigint): void
  setNonce(address: Bytes, nonce: bigint): void
  setCode(address: Bytes, code: Bytes): void
  setSlot(address: Bytes, key: Bytes, value: Bytes): void
  /** Clears all storage of the account, for a state override's `state`. */
  clearStorage(address: Bytes): void
  warm(address: Bytes, keys?: readonly Bytes[]): void
  /**
   * Warm addresses and slots of the transaction, in the order of their first access. Precompiled
   * contracts are left out.
   */
  accessed(): AccessList
  /**
   * Resets warm set, original values, created accounts and transient storage; the journal
   * continues.
   */
  startTransaction(): void
  /**
   * Removes contracts created and destroyed in the transaction, and touched accounts that are empty
   * (EIP-161).
   */
  endTransaction(): void
  /**
   * Runs a message; the fast engine returns the outcome at once, the reference engine a promise.
   * The caller has already raised the sender's nonce, because a contract's address comes from nonce
   * − 1. A nonce that wrapped to 0 prevents a creation (EIP-2681). Sender, receiver and coinbase
   * are warm only if the caller warmed them; precompiled contracts always are.
   * @throws {ViewError} with the session as before the run
   */
  run(message: Message, limits?: Limits): Outcome | Promise<Outcome>
  /** A journal position that stays valid across transactions and flashblocks. */
  checkpoint(): number
  revert(checkpoint: number): void
  /**
   * All changes since the checkpoint, with the reader's values as `before`. A flashblock publishes
   * this diff.
   */
  diff(since: number): StateDiff
  /** Prepares the session for the next call or block over another state; cached code stays. */
  reopen(reader: StateReader, block: BlockEnv): void
  /**
   * Block fields that runs since the session's opening have or may have read, as bits
   * (block-fields.ts).
   */
  fieldsRead(): number
  /** Sets the sink that the next runs report to; undefined disables tracing. */
  setTrace(sink: TraceSink | undefined): void
  /**
   * Returns the instance to the thread. Outcomes and diffs stay valid, but no method may be called
   * afterwards.
   * @throws {ClosedError} as every other method after the first close
   */
  close(): void
}

/** A caller used a session after closing it, which is a bug of the caller. */
export class ClosedError extends Error {
  override name = 'ClosedError'
  constructor() {
    super('an EVM session was used after its end')
  }
}

/**
 * The engine itself failed, which is a bug of the engine. The session is lost, and every method but
 * `close` throws this error. Another engine can do the same work.
 */
export class TrapError extends Error {
  override name = 'TrapError'
}

/**
 * A precompiled contract that a state override moves or removes; `from` becomes an ordinary
 * account.
 */
export type MovedPrecompile = { readonly from: Bytes; readonly to: Bytes | undefined }
export type SessionRules = EvmRules & { readonly moved?: readonly MovedPrecompile[] }

export interface Engine {
  readonly name: string
  openSession(reader: StateReader, block: BlockEnv, rules: SessionRules): Session
  precompiles(rules: EvmRules): readonly Bytes[]
  /** Repeats the work that this engine fails at; undefined if this engine does not fail. */
  readonly fallback?: Fallback
}
export type Fallback = {
  readonly engine: Engine
  /** Reports the reason, once for each repeated piece of work. */
  readonly report: (reason: string) => void
}
