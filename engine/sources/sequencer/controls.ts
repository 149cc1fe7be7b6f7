/**
 * Commands of a developer to the sequencer. The chain can pause, make single flashblocks or many
 * blocks, go back, and break promises. Also what commands leave behind: blocks to which the chain
 * can be reverted, and frames that no feed receives.
 */
import type { AccountEdit } from '../../execution/transaction/edits.ts'
import type { FeedMessage } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { StoredHead } from '../../storage/types.ts'

export type Control =
  /**
   * Seals the block in progress. No block starts and no flashblock is cut until another control
   * requests it.
   */
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }
  /** Cuts one more flashblock, or index 0 of the next block. The chain must be paused. */
  | { readonly type: 'step' }
  /**
   * Seals the block in progress with the transactions of the txpool. Without one, a block is
   * started first.
   */
  | { readonly type: 'seal' }
  /** `interval`: seconds between timestamps; undefined: the clock decides. */
  | { readonly type: 'mine'; readonly blocks: number; readonly interval: number | undefined }
  | TimeControl
  /**
   * Takes back the newest `depth` blocks and the one in progress. Their transactions leave the
   * txpool, or wait in it again with `isRequeued`.
   */
  | { readonly type: 'reorg'; readonly depth: number; readonly isRequeued: boolean }
  /** Sets the gas limit of the next block and later ones. */
  | { readonly type: 'gasLimit'; readonly gasLimit: bigint }
  /** Seals the block in progress, and records the head for a revert. */
  | { readonly type: 'snapshot' }
  | { readonly type: 'revert'; readonly id: number }
  /** Sets accounts in a block that has nothing else. */
  | { readonly type: 'edit'; readonly edits: readonly AccountEdit[] }
  /** Withholds the next flashblock from all feeds. */
  | { readonly type: 'gap' }
  /**
   * Sends the newest flashblock with transactions, and later ones, again without their
   * transactions.
   */
  | { readonly type: 'equivocate'; readonly isRequeued: boolean }
  /** Withholds every frame from all feeds for some time. */
  | { readonly type: 'silence'; readonly ms: number }

/**
 * Timestamp in seconds: `at` for the next block, `by` after the newest block, `every` between any
 * two blocks (undefined: the clock decides).
 */
export type TimeControl =
  | { readonly type: 'time'; readonly at: bigint }
  | { readonly type: 'time'; readonly by: bigint }
  | { readonly type: 'time'; readonly every: bigint | undefined }

/** `request` identifies the control in the response. */
export type ControlRequest = { readonly request: number; readonly control: Control }

export type Controlled = {
  /** Canonical head after the control. */
  readonly head?: StoredHead
  /** Position of the newest flashblock. */
  readonly position?: { readonly number: number; readonly index: number }
  /** Seconds by which the chain is ahead of the clock. */
  readonly aheadSeconds?: number
  /** Hashes of the blocks and transactions that were taken back. */
  readonly removed?: readonly Bytes[]
  readonly dropped?: readonly Bytes[]
  readonly snapshot?: number
  /** False: the snapshot does not exist, or its block has left the chain. */
  readonly isReverted?: boolean
}
export type ControlResponse = { readonly request: number } & (
  | { readonly done: Controlled }
  | { readonly reason: string }
)

export type ControlPort = {
  /** Removes and returns the oldest waiting control. */
  next(): ControlRequest | undefined
  done(response: ControlResponse): void
  /** Moves canonical back to this block. The shared views show when the move is done. */
  rewind(to: StoredHead): void
  /** Whether nothing above the newest complete block is visible. */
  isFlat(): boolean
  /** Keeps blocks from this height on from becoming final for a while; undefined ends the pin. */
  pin(number: number | undefined): void
  /** Returns canonical blocks from a height on, oldest first. */
  blocksFrom(number: number): readonly ControlledBlock[]
  /** Height of the finalized block; no block up to it may be taken back. */
  finalized(): number
  /**
   * Whether the blocks above a height can be unwound, because the values that they replaced are
   * stored.
   */
  isUnfoldable(number: number): boolean
  /** Returns another value at each call. */
  salt(): Bytes
}
export type ControlledBlock = StoredHead & {
  /** Hashes of signed transactions. */
  readonly transactions: readonly Bytes[]
}

/** A control failed for a reason that its caller can correct. */
export class ControlError extends Error {
  override name = 'ControlError'
}

export type EvmSnapshot = {
  readonly head: StoredHead
  /** Milliseconds by which the chain was ahead of the clock. */
  readonly offsetMs: number
}

const MAX_EVM_SNAPSHOTS = 1_000

/** Blocks to which a developer can revert the chain. */
export class EvmSnapshots {
  readonly #byId = new Map<number, EvmSnapshot>()
  #newest = 0

  /** Adds a snapshot and returns its id; ids rise. */
  add(snapshot: EvmSnapshot): number {
    this.#newest++
    this.#byId.set(this.#newest, snapshot)
    if (this.#byId.size > MAX_EVM_SNAPSHOTS) this.#byId.delete(this.#byId.keys().next().value!)
    return this.#newest
  }

  get(id: number): EvmSnapshot | undefined {
    return this.#byId.get(id)
  }

  /** Deletes this snapshot and all later ones. */
  delete(id: number): void {
    for (const other of this.#byId.keys()) if (other >= id) this.#byId.delete(other)
  }

  /** Height of the lowest snapshot; undefined: there is none. */
  oldest(): number | undefined {
    const heights = [...this.#byId.values()].map(({ head }) => head.number)
    return heights.length === 0 ? undefined : Math.min(...heights)
  }
}

/** Frames that no feed receives: gaps and silence on demand. */
export class Withheld {
  #gaps = 0
  #untilMs = Number.NEGATIVE_INFINITY

  /** Withholds the next `gaps` flashblocks, and every frame for `ms`. */
  add({ gaps = 0, ms = 0 }: { readonly gaps?: number; readonly ms?: number }, nowMs: number): void {
    this.#gaps += gaps
    if (ms > 0) this.#untilMs = nowMs + ms
  }

  /** Whether a frame is withheld; a gap counts down. */
  takes({ type }: FeedMessage, nowMs: number): boolean {
    if (nowMs < this.#untilMs) return true
    if (type !== 'flashblock' || this.#gaps === 0) return false
    this.#gaps--
    return true
  }
}
