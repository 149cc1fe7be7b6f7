/**
 * What a developer may have the sequencer do, beside what it does on time: the chain stands still, makes one flashblock or many blocks, goes
 * back, and breaks its promises on demand.
 */
import type { AccountEdit } from '../../execution/transaction/edits.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { StoredHead } from '../../storage/types.ts'

export type Control =
  /** The block in progress is sealed; none is begun, and no flashblock cut, until somebody says so. */
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }
  /** One flashblock more, or index 0 of the next block. Of a chain that stands still. */
  | { readonly type: 'step' }
  /** The block in progress ends with what waits in the txpool; where there is none one is begun. */
  | { readonly type: 'seal' }
  /** `interval`: seconds from one timestamp to the next; undefined: as the clock says. */
  | { readonly type: 'mine'; readonly blocks: number; readonly interval: number | undefined }
  | TimeControl
  /**
   * The newest `depth` blocks and the one in progress are taken back. Their transactions leave the txpool; `isKept`: they wait in it again.
   */
  | { readonly type: 'reorg'; readonly depth: number; readonly isKept: boolean }
  /** Of the next block, and of those after it. */
  | { readonly type: 'gasLimit'; readonly gasLimit: bigint }
  /** The block in progress is sealed: the head can be gone back to. */
  | { readonly type: 'snapshot' }
  | { readonly type: 'revert'; readonly id: number }
  /** Accounts are as these say, from a block on that has nothing else. */
  | { readonly type: 'edit'; readonly edits: readonly AccountEdit[] }
  /** The next flashblock is in no feed. */
  | { readonly type: 'gap' }
  /** The newest flashblock with transactions, and those behind it, are sent again without these. */
  | { readonly type: 'equivocate'; readonly isKept: boolean }
  /** The feed says nothing for so long. */
  | { readonly type: 'silence'; readonly ms: number }

/** Seconds. Of the next block; of the next, so much after the newest; of each, so much after the one before it (undefined: as the clock says). */
export type TimeControl =
  | { readonly type: 'time'; readonly at: bigint }
  | { readonly type: 'time'; readonly by: bigint }
  | { readonly type: 'time'; readonly every: bigint | undefined }

/** Names it in the answer. */
export type ControlRequest = { readonly request: number; readonly control: Control }

export type Controlled = {
  /** Canonical now. */
  readonly head?: StoredHead
  /** Of the newest flashblock. */
  readonly place?: { readonly number: number; readonly index: number }
  /** Seconds by which the chain is ahead of the clock. */
  readonly aheadSeconds?: number
  /** Hashes of blocks and of transactions that are taken back. */
  readonly removed?: readonly Bytes[]
  readonly dropped?: readonly Bytes[]
  /** Id of the one that was taken. */
  readonly snapshot?: number
  /** False: there is no such snapshot, or its block is not in the chain any more. */
  readonly isReverted?: boolean
}
export type ControlAnswer = { readonly request: number } & (
  | { readonly done: Controlled }
  | { readonly reason: string }
)

export type ControlPort = {
  /** The oldest that waits; it is gone then. */
  next(): ControlRequest | undefined
  done(answer: ControlAnswer): void
  /** Canonical goes back to this block: whoever waits sees it in the shared views. */
  rewind(to: StoredHead): void
  /** Nothing is shown above the newest complete block. */
  isFlat(): boolean
  /** Blocks from this height on do not become final, for a while; undefined: as they do. */
  pin(number: number | undefined): void
  /** Canonical blocks from a height on, oldest first. */
  blocksFrom(number: number): readonly ControlledBlock[]
  /** Nothing at or below it may be taken back. */
  finalized(): number
  /** What the blocks above a height replaced is kept: it can be put back. */
  isKept(number: number): boolean
  /** Other from one call to the next. */
  salt(): Bytes
}
export type ControlledBlock = StoredHead & {
  /** Hashes of those that somebody has sent. */
  readonly transactions: readonly Bytes[]
}

/** It cannot be done, for a reason that whoever asked for it can do something about. */
export class ControlError extends Error {
  override name = 'ControlError'
}
