/** What a tracer is: an observer of one transaction or call that ends in JSON (go-ethereum: eth/tracers). */
import type { Rules } from '../chainspec/types.ts'
import type { Session, TraceSink } from '../evm/engine.ts'
import type { Bytes } from '../primitives/bytes.ts'

export interface Tracer {
  readonly sink: TraceSink
  /** Before anything of the transaction is applied. */
  start?(scene: TraceScene): void
  /** After all of it is: `gasUsed` as in its receipt. Not called when it could not be applied. */
  end?(gasUsed: bigint): void
  /** JSON in pieces, ASCII. @throws {TracerError} when there is nothing to show */
  result(): readonly string[]
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
}
export type TracePlace = {
  readonly blockHash: Bytes
  readonly blockNumber: bigint
  readonly transactionHash: Bytes
  readonly transactionIndex: number
}

/** How much one request may collect, over all its transactions. */
export class TraceBudget {
  readonly bytes: number
  #spent = 0

  constructor(bytes: number) {
    this.bytes = bytes
  }
  spend(bytes: number): void {
    this.#spent += bytes
  }
  /** Nothing more may be collected: the run is to be ended. */
  get isSpent(): boolean {
    return this.#spent > this.bytes
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
