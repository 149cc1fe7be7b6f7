/** A case of the fuzzer has a small state and the steps of one session. Its JSON fits on a line. */
import type { Hex } from '../../../engine/primitives/bytes.ts'

export type CaseAccount = {
  readonly nonce?: number
  /** The balance in wei. */
  readonly balance?: Hex
  readonly code?: Hex
  /** Maps slots to values, both as numbers in hex. */
  readonly storage?: Readonly<Record<Hex, Hex>>
}

export type CaseMessage = {
  readonly from: Hex
  /** undefined: the message creates a contract. */
  readonly to?: Hex
  readonly value?: Hex
  readonly gas: number
  readonly input?: Hex
  readonly gasPrice?: number
  readonly baseFee?: number
  /** The number of blob hashes. */
  readonly blobs?: number
}

/**
 * A bound ends a run from outside: by steps, by the n-th check of the deadline, or by a failing
 * n-th read.
 */
export type Bound =
  | { readonly fuel: number }
  | { readonly polls: number }
  | { readonly reads: number }

export type CaseStep =
  | { readonly do: 'begin' | 'end' | 'checkpoint' }
  /**
   * Reverts to the checkpoint with this index among the open ones; an invalid index has no effect.
   */
  | { readonly do: 'revert'; readonly to: number }
  | { readonly do: 'warm'; readonly address: Hex; readonly keys?: readonly Hex[] }
  | { readonly do: 'balance'; readonly address: Hex; readonly wei: Hex }
  | { readonly do: 'nonce'; readonly address: Hex; readonly nonce: number }
  | { readonly do: 'code'; readonly address: Hex; readonly code: Hex }
  | { readonly do: 'slot'; readonly address: Hex; readonly key: Hex; readonly value: Hex }
  | { readonly do: 'clear'; readonly address: Hex }
  | RunStep

export type RunStep = {
  readonly do: 'run'
  readonly message: CaseMessage
  readonly trace?: 'frames' | 'steps'
  readonly bound?: Bound
}

export type FuzzCase = {
  /** The name of a row in rules.ts. */
  readonly rules: string
  /** Precompiled contracts at other addresses: low byte → address. */
  readonly moved?: Readonly<Record<number, Hex>>
  readonly accounts: Readonly<Record<Hex, CaseAccount>>
  /**
   * Keys that the source has only after a fetch: "account 0x…", "slot 0x… of 0x…", "code 0x…",
   * "hash of block 5".
   */
  readonly missing?: readonly string[]
  readonly steps: readonly CaseStep[]
}

/** An observation has a line for each fact of a run; two engines agree if their lists are equal. */
export type Observation = readonly string[]
