/** The life of a block in the writer, as one table: what may happen to it in which state, and what it is then. */

export type BlockState =
  /** Not held. */
  | 'none'
  /** Its first transactions are being executed: nobody sees it. */
  | 'begun'
  /** All checks of what it holds have passed; more may come. Pending. */
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
  /** Folded, and no branch may leave from it any more. */
  | 'forgotten'

export type BlockEvent =
  /** Index 0 of a payload, or a canonical block that no flashblocks brought. */
  | 'begin'
  /** Found appended and not folded at a start. */
  | 'recover'
  /** Found folded at a start, or later as the parent of a branch. */
  | 'find'
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
  /** A failed check, a flush, a second payload, a block that differs, a reorg, an unfold. */
  | 'drop'
  /** It is below the undo window, or is known by another id since an unfold. */
  | 'forget'

export const LIFE: Readonly<Record<BlockState, Partial<Record<BlockEvent, BlockState>>>> = {
  none: { begin: 'begun', recover: 'canonical', find: 'folded' },
  begun: { extend: 'open', drop: 'dropped' },
  open: { extend: 'open', end: 'ended', drop: 'dropped' },
  ended: { finish: 'complete', drop: 'dropped' },
  complete: { handOver: 'handed', drop: 'dropped' },
  // Nothing but its answer ends the wait: the keeper reads the table.
  handed: { append: 'canonical' },
  canonical: { fold: 'folded', drop: 'dropped' },
  folded: { drop: 'dropped', forget: 'forgotten' },
  dropped: {},
  forgotten: {},
}

/** @throws {LifeError} when the table has no such step: a broken invariant of our own memory. */
export function nextState(state: BlockState, event: BlockEvent): BlockState {
  const next = LIFE[state][event]
  if (next === undefined) throw new LifeError(`a block that is ${state} cannot ${event}`)
  return next
}

/** Final header and hash are known. */
export const isFinished = (state: BlockState): boolean =>
  state === 'complete' || state === 'handed' || isDecided(state)

/** The source has decided on it, and it is durable. */
export const isDecided = (state: BlockState): boolean => state === 'canonical' || state === 'folded'

const SHOWN = {
  canonical: isDecided,
  complete: isFinished,
  pending: (state: BlockState) => state === 'open' || state === 'ended' || isFinished(state),
} as const

/** What a record may show as which head. @throws {LifeError} */
export function assertShown(head: keyof typeof SHOWN, state: BlockState): void {
  if (!SHOWN[head](state)) throw new LifeError(`a block that is ${state} is no ${head} head`)
}

export class LifeError extends Error {
  override name = 'LifeError'
}
