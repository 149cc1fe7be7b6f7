/** All that a writer knows of leaders and of what they have told. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import type { StateDiff } from '../../state/diff.ts'
import { type HeldDiffLimits, HeldDiffs } from './held.ts'
import { Leaders } from './leaders.ts'
import type { ToldOutcome } from './outcomes.ts'
import type { DiffPlace } from './types.ts'

/** A flashblock that was executed here: what a leader tells of it is held against that. */
export type OwnOutcome = {
  readonly place: DiffPlace
  /** Monotonic milliseconds: when it was shown. */
  readonly atMs: number
  readonly hash: Bytes
  readonly parentHash: Bytes
  readonly transactions: readonly Transaction[]
  readonly outcomes: readonly ToldOutcome[]
  readonly changes: StateDiff
}

export class Applying {
  readonly held: HeldDiffs
  readonly leaders = new Leaders()
  /** Oldest first. */
  readonly own: OwnOutcome[] = []
  /** By the list of their bytes: what waits for its diff is read meanwhile. Senders are open, but those of deposits. */
  readonly decoded = new WeakMap<readonly Bytes[], readonly Transaction[] | 'wrong'>()

  constructor(limits: HeldDiffLimits) {
    this.held = new HeldDiffs(limits)
  }

  remember(own: OwnOutcome): void {
    this.own.push(own)
    if (this.own.length > MOST_OWN) this.own.shift()
  }
}

/** Flashblocks executed here that are remembered: whoever tells of them later has nothing to be held against. */
const MOST_OWN = 32
