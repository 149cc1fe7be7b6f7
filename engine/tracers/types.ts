/** A tracer observes one transaction or call and writes JSON (go-ethereum: eth/tracers). */
import type { Rules } from '../chainspec/types.ts'
import type { Session, TraceSink } from '../evm/engine.ts'
import type { Bytes } from '../primitives/bytes.ts'

export interface Observer {
  readonly sink: TraceSink
  /** Called before any part of the transaction is applied. */
  start?(scene: TraceScene): void
  /**
   * Called after the whole transaction is applied, with the gas of its receipt. Not called if the
   * transaction cannot be applied.
   */
  end?(gasUsed: bigint): void
}
export interface Tracer extends Observer {
  /**
   * Writes the JSON that the tracer has not written during the run.
   * @throws {TracerError} if there is no result
   */
  writeResult(): void
}

/**
 * Receives the JSON of a request's traces, in ASCII. Text beyond the limit is dropped, with all
 * text after it, until `cutTo`.
 */
export interface TraceOutput {
  /** Bytes written so far. */
  readonly length: number
  /** Maximum bytes. */
  limit: number
  /** True if text was dropped. */
  readonly isFull: boolean
  write(text: string): void
  /** Writes ASCII bytes, which the caller may change afterwards. */
  writeBytes(text: Bytes): void
  /** Removes text beyond this length. */
  cutTo(length: number): void
}

/** The live state. A read sees all changes that the transaction has made so far. */
export type TracedState = Pick<Session, 'account' | 'code' | 'slot'>
/** The transaction or call about to run, with its state and rules. */
export type TraceScene = {
  readonly state: TracedState
  readonly rules: Rules
  readonly coinbase: Bytes
  readonly from: Bytes
  /** undefined creates a contract. */
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly input: Bytes
  /** The whole gas limit, including intrinsic gas. */
  readonly gasLimit: bigint
  /** Signers of the authorizations of a set-code transaction (EIP-7702). */
  readonly authorities: readonly Bytes[]
}

/** Values that are known before the transaction runs. */
export type TraceContext = {
  /** undefined for a call, which is in no block. */
  readonly location: TraceLocation | undefined
  /** Number of the block's logs before this transaction. */
  readonly firstLog: number
  /** Addresses of precompiled contracts in lower-case hex. */
  readonly precompiles: ReadonlySet<string>
  readonly budget: TraceBudget
  /**
   * Shared with the traces before and after; a trace that is written during the run uses it alone.
   */
  readonly output: TraceOutput
}
export type TraceLocation = {
  readonly blockHash: Bytes
  readonly blockNumber: bigint
  readonly transactionHash: Bytes
  readonly transactionIndex: number
}

/**
 * Limits of one request over all its transactions. `spend` and `step` only count and never throw.
 * The code that runs the transactions checks `excess` and stops them.
 */
export class TraceBudget {
  readonly #output: TraceOutput
  readonly #bytes: number
  readonly #steps: number
  #spentBytes = 0
  #spentSteps = 0

  constructor(output: TraceOutput, limits: { readonly bytes: number; readonly steps: number }) {
    this.#output = output
    this.#bytes = limits.bytes
    this.#steps = limits.steps
  }
  /** Counts bytes that are buffered until the trace is written. */
  spend(bytes: number): void {
    this.#spentBytes += bytes
  }
  /** Counts events that a tracer received: a step, a touch or a frame. */
  step(count = 1): void {
    this.#spentSteps += count
  }
  /** Reason to end the run; undefined while the budget suffices. */
  get excess(): string | undefined {
    if (this.#spentSteps > this.#steps) return `trace of more than ${this.#steps} steps`
    if (this.#spentBytes <= this.#bytes && !this.#output.isFull) return undefined
    return `trace of more than ${this.#bytes} bytes`
  }
}

/** A trace request failed; `isConfig` is true for an invalid configuration. */
export class TracerError extends Error {
  override name = 'TracerError'
  readonly isConfig: boolean
  constructor(message: string, isConfig = false) {
    super(message)
    this.isConfig = isConfig
  }
}
