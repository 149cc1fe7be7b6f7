/** Net changes of one transaction, flashblock or block, with the values before. */
import type { Bytes } from '../primitives/bytes.ts'

export type AccountState = {
  readonly nonce: bigint
  readonly balance: bigint
  readonly codeHash: Bytes
}
export type SlotChange = {
  /** 32 bytes. */
  readonly key: Bytes
  /** Value in the state at the parent block: 32 bytes, zero when the slot did not exist. */
  readonly before: Bytes
  readonly after: Bytes
}
export type AccountChange = {
  readonly address: Bytes
  /** Account in the state at the parent block; undefined: no such account. */
  readonly before: AccountState | undefined
  /**
   * undefined: the account was deleted (self-destructed or empty, EIP-161). Each of its slots is
   * then listed as zero.
   */
  readonly after: AccountState | undefined
  readonly slots: readonly SlotChange[]
  /** Code with the hash `after.codeHash`, when this diff sets the code. */
  readonly code: Bytes | undefined
}
/**
 * At most one entry per address. A flashblock's diff lists what changed since the flashblock
 * before, but `before` has values of the parent block.
 */
export type StateDiff = readonly AccountChange[]
/** A state diff as it is stored (see encodeDiff). */
export type EncodedDiff = Bytes
