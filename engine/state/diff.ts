/** Net changes of one transaction, flashblock or block, with the values before it. */
import type { Bytes } from '../primitives/bytes.ts'

export type AccountState = {
  readonly nonce: bigint
  readonly balance: bigint
  readonly codeHash: Bytes
}
export type SlotChange = {
  /** 32 bytes. */
  readonly key: Bytes
  /** 32 bytes, zero when the slot did not exist: the value in the state at the parent block. */
  readonly before: Bytes
  readonly after: Bytes
}
export type AccountChange = {
  readonly address: Bytes
  /** In the state at the parent block; undefined: no such account. */
  readonly before: AccountState | undefined
  /** undefined: deleted (self-destructed or empty, EIP-161). Its slots are then listed one by one as zero. */
  readonly after: AccountState | undefined
  readonly slots: readonly SlotChange[]
  /** Code whose hash is `after.codeHash`, when it was set in this diff. */
  readonly code: Bytes | undefined
}
/** At most one entry per address. A flashblock's diff lists what was touched since the flashblock before, its `before` are those of the parent block. */
export type StateDiff = readonly AccountChange[]
/** The same as bytes (encodeDiff), as it is stored. */
export type EncodedDiff = Bytes
