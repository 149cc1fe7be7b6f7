/** Shared context of all parts of a verification. */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Engine } from '../evm/engine.ts'
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import type { Database } from '../storage/database/types.ts'
import type { StoreReader } from '../storage/types.ts'
import type { Findings } from './findings.ts'

export type Verifying = {
  readonly database: Database
  readonly store: StoreReader
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly findings: Findings
  readonly counts: Counts
}

export type Counts = {
  blocks: number
  transactions: number
  executed: number
  /** Blocks that could not be executed, because their state is not retained or not here. */
  notExecuted: number
  accounts: number
  slots: number
  history: number
  nodes: number
  undo: number
  promises: number
  fetched: number
  /** Rows without a checksum, fetched by an older version. */
  unproven: number
}

export const newCounts = (): Counts => ({
  blocks: 0,
  transactions: 0,
  executed: 0,
  notExecuted: 0,
  accounts: 0,
  slots: 0,
  history: 0,
  nodes: 0,
  undo: 0,
  promises: 0,
  fetched: 0,
  unproven: 0,
})

/** Range of all keys, because no key is longer. */
export const ALL: { readonly gte: Bytes; readonly lt: Bytes } = {
  gte: NO_BYTES,
  lt: new Uint8Array(80).fill(0xff),
}

/** Returns the error text of a decoder; undefined: the row is fine. */
export function faultOf(decode: () => void): string | undefined {
  try {
    decode()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
