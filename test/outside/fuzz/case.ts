/** A case of the fuzzer: a small state and what one session does with it, as JSON that fits a line. */
import type { Hex } from '../../../engine/primitives/bytes.ts'

export type CaseAccount = {
  readonly nonce?: number
  /** Wei. */
  readonly balance?: Hex
  readonly code?: Hex
  /** Slot → value, both as numbers in hex. */
  readonly storage?: Readonly<Record<Hex, Hex>>
}

export type CaseMessage = {
  readonly from: Hex
  /** undefined: create a contract. */
  readonly to?: Hex
  readonly value?: Hex
  readonly gas: number
  readonly input?: Hex
  readonly gasPrice?: number
  readonly baseFee?: number
  /** How many blob hashes. */
  readonly blobs?: number
}

/** Ends a run from outside: by steps, at the n-th look at the deadline, or by a reader that fails at its n-th answer. */
export type Bound =
  | { readonly fuel: number }
  | { readonly polls: number }
  | { readonly reads: number }

export type CaseStep =
  | { readonly do: 'begin' | 'end' | 'checkpoint' }
  /** To the checkpoint with that place among those that are still there; to none where there is none. */
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
  /** A row of rules.ts. */
  readonly rules: string
  /** Precompiled contracts that are elsewhere: low byte → address. */
  readonly moved?: Readonly<Record<number, Hex>>
  readonly accounts: Readonly<Record<Hex, CaseAccount>>
  /** What the source has only when it is asked again: "account 0x…", "slot 0x… of 0x…", "code 0x…", "hash of block 5". */
  readonly missing?: readonly string[]
  readonly steps: readonly CaseStep[]
}

/** What a run shows, a line for each fact: two engines agree where the lists are equal. */
export type Observation = readonly string[]
