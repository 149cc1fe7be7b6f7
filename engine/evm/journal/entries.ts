/** What a session remembers of accounts and slots, and of each change what was before it. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { AccountState } from '../../state/diff.ts'

/** An account that was read or changed. Only JournaledState writes into it. */
export type Entry = {
  readonly address: Bytes
  /** The reader's; undefined: no such account. */
  readonly base: AccountState | undefined
  isThere: boolean
  nonce: bigint
  balance: bigint
  codeHash: Bytes
  /** Code that was set or loaded; undefined: not looked at yet. */
  code: Bytes | undefined
  readonly slots: Map<string, Slot>
  /** Slots that are not here are zero, whatever the reader has. */
  isCleared: boolean
  /** Number of the transaction in which it was touched, at whose end it is destroyed. */
  touched: number
  destroyed: number
}

export type Slot = {
  readonly key: Bytes
  /** The reader's. */
  readonly base: Bytes
  /** Was zero when it was looked at first, because the storage had been cleared. */
  readonly isFromCleared: boolean
  value: Bytes
  /** The value before transaction `originalOf`, once it was written in it. */
  original: Bytes
  originalOf: number
}

/** What was before a change, in the order of the changes. */
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
  /** Became warm: an address in the map of a transaction, or a slot in the set of an address. */
  | {
      readonly kind: 'warm'
      readonly among: { delete(key: string): boolean }
      readonly key: string
    }

export type AccountFields = Pick<Entry, 'isThere' | 'nonce' | 'balance' | 'codeHash' | 'code'>
