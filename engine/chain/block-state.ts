/**
 * The states of a block in the writer, with their transitions and the heads that each state allows.
 */

export type BlockState =
  /** The writer does not have the block. */
  | 'none'
  /** The first transactions are being executed. The block is not published yet. */
  | 'started'
  /**
   * All checks of its transactions so far have passed, and more may come. The block can be the
   * pending head.
   */
  | 'open'
  /**
   * All transactions are there and the persistence thread computes the root. The block is still
   * pending.
   */
  | 'ended'
  /** The final hash is known, so that the block can be the complete head. */
  | 'complete'
  /** Canonical by its source; the persistence thread has a request to append it. */
  | 'submitted'
  /** Durable and published as canonical. */
  | 'canonical'
  /** Part of flat state and history; its diff layer is not needed any more. */
  | 'persisted'
  /** Replaced, contradicted or flushed. */
  | 'dropped'
  /** Persisted, and no branch may start from it any more. */
  | 'forgotten'

export type BlockEvent =
  /** Index 0 of a payload arrives, or a canonical block without flashblocks. */
  | 'start'
  /** At a start, the block was found appended but not persisted. */
  | 'recover'
  /** The block was found persisted at a start, or later as the parent of a branch. */
  | 'find'
  | 'extend'
  /**
   * The block is complete by an End, the target index, index 0 of the next block, or the canonical
   * block.
   */
  | 'end'
  /**
   * The persistence thread has responded with the root, and the diff layer has the final header.
   */
  | 'finish'
  /** The source calls the block canonical, and it is submitted to the persistence thread. */
  | 'submit'
  /** The persistence thread has made the block durable. */
  | 'append'
  | 'persist'
  /**
   * Caused by a failed check, a flush, a second payload, a block that differs, a reorg, or an
   * unwind.
   */
  | 'drop'
  /** The block is below the undo window, or has a new id since an unwind. */
  | 'forget'

export const BLOCK_TRANSITIONS: Readonly<
  Record<BlockState, Partial<Record<BlockEvent, BlockState>>>
> = {
  none: { start: 'started', recover: 'canonical', find: 'persisted' },
  started: { extend: 'open', drop: 'dropped' },
  open: { extend: 'open', end: 'ended', drop: 'dropped' },
  ended: { finish: 'complete', drop: 'dropped' },
  complete: { submit: 'submitted', drop: 'dropped' },
  /*
   * Only the persistence thread's response ends this state, because that thread reads the diff
   * layer.
   */
  submitted: { append: 'canonical' },
  canonical: { persist: 'persisted', drop: 'dropped' },
  persisted: { drop: 'dropped', forget: 'forgotten' },
  dropped: {},
  forgotten: {},
}

/**
 * @throws {BlockStateError} when the table has no such transition; an invariant of the writer is
 * then broken
 */
export function nextState(state: BlockState, event: BlockEvent): BlockState {
  const next = BLOCK_TRANSITIONS[state][event]
  if (next === undefined) throw new BlockStateError(`a block that is ${state} cannot ${event}`)
  return next
}

/** Returns whether final header and hash are known. */
export const isFinished = (state: BlockState): boolean =>
  state === 'complete' || state === 'submitted' || isDecided(state)

/** Returns whether the block is canonical by its source and durable. */
export const isDecided = (state: BlockState): boolean =>
  state === 'canonical' || state === 'persisted'

const IS_ALLOWED_AS = {
  canonical: isDecided,
  complete: isFinished,
  pending: (state: BlockState) => state === 'open' || state === 'ended' || isFinished(state),
} as const

/**
 * Checks that a snapshot may publish a block in this state as this head.
 * @throws {BlockStateError} when it may not
 */
export function assertAllowedAs(head: keyof typeof IS_ALLOWED_AS, state: BlockState): void {
  if (!IS_ALLOWED_AS[head](state))
    throw new BlockStateError(`a block that is ${state} is no ${head} head`)
}

export class BlockStateError extends Error {
  override name = 'BlockStateError'
}
