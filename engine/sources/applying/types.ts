/** What leaders tell of flashblocks that they have executed, for a node that applies it (ADR 54). */
import type { Bytes } from '../../primitives/bytes.ts'
import type { EncodedDiff } from '../../state/diff.ts'

/** A flashblock, or a block that came whole: of that index 0. */
export type DiffPlace = {
  readonly number: number
  readonly index: number
  /** 0x and 16 digits; undefined: no feed has brought the block. */
  readonly payloadId: string | undefined
  /** Of the header so far; of a block that came whole, its own. undefined: nobody knows it yet. */
  readonly hash?: Bytes
}

/** Of a diff in memory, beside its changes. */
export const CHANGED_BYTES = 500

/** Plain data: crosses a thread. */
export type ToldDiff = DiffPlace & {
  readonly parentHash: Bytes
  /** Of the header as the leader shows it: where it is final, the block's. */
  readonly hash: Bytes
  readonly isFinal: boolean
  /** hashOfBefore of its changes. */
  readonly before: Bytes
  /** Of its transactions, 32 bytes each. */
  readonly hashes: Bytes
  /** Of its transactions, 20 bytes each. */
  readonly senders: Bytes
  /** As packOutcomes makes it. */
  readonly outcomes: Bytes
  /** Without values before. */
  readonly changes: EncodedDiff
}

/** As the writer is given it. */
export type LeaderDiff = {
  /** Its number among the leaders of this node. */
  readonly leader: number
  readonly told: ToldDiff
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number
}

/** What cannot be right in what a leader has said. `kind` is a name of few, for counting. */
export type LeaderFault = { readonly kind: string; readonly message: string }

/** A message of an enriched feed that is not of its form, or does not follow from those before it. */
export class LeaderError extends Error {
  override name = 'LeaderError'
  readonly kind: string
  constructor(kind: string, message: string) {
    super(message)
    this.kind = kind
  }
}
