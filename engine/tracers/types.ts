/** What a tracer is: an observer of one transaction or call that writes JSON (go-ethereum: eth/tracers). */
import type { Rules } from '../chainspec/types.ts'
import type { Session, TraceSink } from '../evm/engine.ts'
import type { Bytes } from '../primitives/bytes.ts'

export interface Observer {
  readonly sink: TraceSink
  /** Before anything of the transaction is applied. */
  start?(scene: TraceScene): void
  /** After all of it is: `gasUsed` as in its receipt. Not called when it could not be applied. */
  end?(gasUsed: bigint): void
}
export interface Tracer extends Observer {
  /** Writes its JSON to the output, as far as it has not written it before. @throws {TracerError} when there is nothing to show */
  writeResult(): void
}

/** Where the JSON of a request's traces goes, in ASCII. What does not fit is left out, and everything behind it, until it is taken back. */
export interface TraceOutput {
  /** Bytes written so far. */
  readonly length: number
  /** Bytes that may be written. */
  limit: number
  /** Something was left out. */
  readonly isFull: boolean
  write(text: string): void
  /** ASCII. They may change afterwards. */
  writeBytes(text: Bytes): void
  /** Takes back what was written behind this length. */
  cutTo(length: number): void
}

/** The state a tracer may look at, as it is at that moment. */
export type TracedState = Pick<Session, 'account' | 'code' | 'slot'>
/** What is about to run, and on what. */
export type TraceScene = {
  readonly state: TracedState
  readonly rules: Rules
  readonly coinbase: Bytes
  readonly from: Bytes
  /** undefined: creates a contract. */
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly input: Bytes
  /** All of it, intrinsic gas included. */
  readonly gasLimit: bigint
  /** Who signed the authorizations of a set-code transaction (EIP-7702). */
  readonly authorities: readonly Bytes[]
}

/** What is known before the transaction runs. */
export type TraceContext = {
  /** undefined: a call, which is in no block. */
  readonly place: TracePlace | undefined
  /** Logs of the block before this transaction. */
  readonly firstLog: number
  /** Precompiled contracts, addresses in lower-case hex. */
  readonly precompiles: ReadonlySet<string>
  readonly budget: TraceBudget
  /** Shared with the traces before and after it: one that is written as the run goes on has it alone. */
  readonly output: TraceOutput
}
export type TracePlace = {
  readonly blockHash: Bytes
  readonly blockNumber: bigint
  readonly transactionHash: Bytes
  readonly transactionIndex: number
}

/** How much one request may collect and look at, over all its transactions. */
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
  /** Bytes that are kept until the trace is written. */
  spend(bytes: number): void {
    this.#spentBytes += bytes
  }
  /** A step, a touch or a frame: whatever the tracer was told. */
  step(count = 1): void {
    this.#spentSteps += count
  }
  /** Why the run is to be ended; undefined: it may go on. */
  get excess(): string | undefined {
    if (this.#spentSteps > this.#steps) return `trace of more than ${this.#steps} steps`
    if (this.#spentBytes <= this.#bytes && !this.#output.isFull) return undefined
    return `trace of more than ${this.#bytes} bytes`
  }
}

/** A request for a trace that cannot be met; `isConfig`: it was a wrong one. */
export class TracerError extends Error {
  override name = 'TracerError'
  readonly isConfig: boolean
  constructor(message: string, isConfig = false) {
    super(message)
    this.isConfig = isConfig
  }
}
