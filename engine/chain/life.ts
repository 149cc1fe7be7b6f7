/** The life of a block in the writer, as one table: what may happen to it in which state, and what it is then. */

export type BlockState =
  /** Flashblocks are being executed into it; pending. */
  | 'open'
  /** All its transactions are there; the keeper was asked for its root. Still pending. */
  | 'ended'
  /** Its final hash is known; may be the complete head. */
  | 'complete'
  /** Canonical by its source; the keeper was asked to append it. */
  | 'handed'
  /** Durable and published as canonical. */
  | 'canonical'
  /** In flat state and history: its table is not needed any more. */
  | 'folded'
  /** Replaced, contradicted or flushed. */
  | 'dropped'

export type BlockEvent =
  /** Further transactions, all checks passed. */
  | 'extend'
  /** End, target index, index 0 of the next block, or the canonical block says that all is there. */
  | 'end'
  /** The keeper answered with the root, and the header made of it is in the table. */
  | 'finish'
  /** The source says it is canonical: handed to the keeper. */
  | 'handOver'
  /** The keeper made it durable. */
  | 'append'
  /** The keeper folded it. */
  | 'fold'
  /** A flush, a second payload, a block that differs, a reorg, an unfold. */
  | 'drop'

export const LIFE: Readonly<Record<BlockState, Partial<Record<BlockEvent, BlockState>>>> = {
  open: { extend: 'open', end: 'ended', drop: 'dropped' },
  ended: { finish: 'complete', drop: 'dropped' },
  complete: { handOver: 'handed', drop: 'dropped' },
  // Nothing but its answer ends the wait: the keeper reads the table.
  handed: { append: 'canonical' },
  canonical: { fold: 'folded', drop: 'dropped' },
  folded: { drop: 'dropped' },
  dropped: {},
}

/** @throws {LifeError} when the table has no such step: a broken invariant of our own memory. */
export function nextState(state: BlockState, event: BlockEvent): BlockState {
  const next = LIFE[state][event]
  if (next === undefined) throw new LifeError(state, event)
  return next
}

/** Final header and hash are known. */
export const isFinished = (state: BlockState): boolean =>
  state === 'complete' || state === 'handed' || state === 'canonical' || state === 'folded'

export class LifeError extends Error {
  override name = 'LifeError'
  constructor(state: BlockState, event: BlockEvent) {
    super(`a block that is ${state} cannot ${event}`)
  }
}
