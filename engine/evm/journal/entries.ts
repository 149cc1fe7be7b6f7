/** Accounts and slots that a session caches, and the undo entries of their changes. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { AccountState } from '../../state/diff.ts'

/** An account that was read or changed. Only JournaledState writes to it. */
export type Entry = {
  readonly address: Bytes
  /** The reader's account; undefined if the account does not exist there. */
  readonly base: AccountState | undefined
  isThere: boolean
  nonce: bigint
  balance: bigint
  codeHash: Bytes
  /** Code that was set or loaded; undefined before the first read. */
  code: Bytes | undefined
  readonly slots: Map<string, Slot>
  /** Slots absent from `slots` are zero, whatever the reader has. */
  isCleared: boolean
  /**
   * Number of the transaction that last touched the account; `destroyed` likewise for its deletion
   * at the transaction's end.
   */
  touched: number
  destroyed: number
}

export type Slot = {
  readonly key: Bytes
  /** The reader's value. */
  readonly base: Bytes
  /** True if the slot was first read after its storage had been cleared, and so was zero. */
  readonly isFromCleared: boolean
  value: Bytes
  /** The value before transaction `originalOf`, which is the last that wrote the slot. */
  original: Bytes
  originalOf: number
}

/** The previous value of one change; the journal lists them in the order of the changes. */
export type Undo =
  | { readonly kind: 'account'; readonly entry: Entry; readonly was: AccountFields }
  | { readonly kind: 'slot'; readonly entry: Entry; readonly slot: Slot; readonly was: Bytes }
  | { readonly kind: 'cleared'; readonly entry: Entry }
  | {
      readonly kind: 'mark'
      readonly on: Entry
      readonly mark: 'touched' | 'destroyed'
      readonly was: number
    }
  /** An address in a transaction's map, or a slot in an address's set, became warm. */
  | {
      readonly kind: 'warm'
      readonly among: { delete(key: string): boolean }
      readonly key: string
    }

export type AccountFields = Pick<Entry, 'isThere' | 'nonce' | 'balance' | 'codeHash' | 'code'>
