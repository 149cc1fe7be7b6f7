/**
 * Moves of canonical without a new block. A rewind goes back to a canonical block, and only the
 * node's own sequencer requests it.
 * A resync restarts a lazy state at another block while the node runs. The upstreams may lack the
 * state at our head, or a reorg was too deep. Blocks above canonical are dropped, and the
 * persistence thread empties and refills the directory. The next snapshot has the new block as its
 * base. Older views are void from the persistence thread's first step, as after an unwind.
 */
import { dropPayload } from '../../flashblocks/sequence.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { PersistenceResponse, StoredHead } from '../../storage/types.ts'
import { forgetEmitted } from './changes.ts'
import { storedBlock } from './recover.ts'
import type { LazyResync } from './types.ts'
import { count, emit, giveUp, publish, type WriterState } from './writer-state.ts'

export function onRewind(state: WriterState, to: StoredHead): void {
  state.rewind = { to, isRequested: false }
}

/**
 * Requests the rewind when the persistence thread has no block of ours.
 * @returns false always, with the chain unchanged
 */
export function tryRewind(state: WriterState): false {
  const { rewind, submitted, fullBlock, upstreamBlocks, failure } = state
  const isBusy = submitted !== undefined || fullBlock !== undefined || upstreamBlocks.length > 0
  if (rewind === undefined || rewind.isRequested || isBusy || failure !== undefined) return false
  state.rewind = { ...rewind, isRequested: true }
  for (const buffer of [state.buffered, state.early, state.competing, state.blocked]) buffer.clear()
  state.packetWait = undefined
  emit(state, { type: 'persistence', request: { type: 'rewind', to: rewind.to } })
  return false
}

/**
 * Moves the heads to the block to which the persistence thread went back.
 * @throws {Error} when the block is not in memory: a broken invariant
 */
export function onRewound(state: WriterState, hash: Bytes): void {
  const block = state.chain.finished(hash)
  if (block === undefined)
    throw new Error('the persistence thread has gone back to a block that is not held')
  state.chain.rewind(block)
  state.sequence = dropPayload(state.sequence)
  rewound(state)
  publish(state)
}

/** Clears the rewind request after canonical has moved. */
export function rewound(state: WriterState): void {
  if (state.rewind === undefined) return
  state.rewind = undefined
  count(state, 'rewind')
}

export function onResync(state: WriterState, { head, start, why }: LazyResync): void {
  if (state.options.isLazy !== true) throw new Error('a whole state cannot begin anew')
  state.resync ??= { head, start, why, id: undefined }
}

/** Requests the resync once the persistence thread has no block of ours. */
export function continueResync(state: WriterState): void {
  const { resync, options } = state
  if (resync === undefined) return
  if (resync.id === undefined) {
    if (state.chain.pending !== state.chain.canonical) count(state, 'begins_anew')
    giveUp(state)
  }
  const isBusy = state.submitted !== undefined || state.failure !== undefined
  if (resync.id !== undefined || isBusy) return
  const { id } = options.publisher.stored(resync.head)
  state.resync = { ...resync, id }
  const genesisNumber = Number(options.chain.genesisNumber)
  const request = { type: 'begin', id, genesisNumber, start: resync.start } as const
  emit(state, { type: 'persistence', request })
}

export function onResynced(
  state: WriterState,
  { id, head, unwinds }: PersistenceResponse & { readonly type: 'begun' },
): void {
  const { chain, options, resync } = state
  if (resync?.id !== id)
    throw new Error(`the persistence thread has begun as ${id}, which nobody asked for`)
  const before = chain.canonical.handle.number
  const handle = options.publisher.unwound({ ...head, id, unwinds })
  chain.start(storedBlock(options, handle, head.hash))
  const { start, why } = resync
  const { safe, finalized, keptUpTo } = start
  state.resync = undefined
  state.sequence = dropPayload(state.sequence)
  state.refused.length = 0
  state.fullSinceMs = undefined
  state.retryAtMs = 0
  state.blocksWithoutFeed = 0
  if (options.hasLabelledHeads === true) state.labelledHeads = { safe, finalized }
  state.labels.submitted.length = 0
  state.labels.stored = { safe, finalized }
  forgetEmitted(state.emitted)
  count(state, 'begun_anew')
  publish(state)
  emit(state, { type: 'begun', ...head, safe, finalized, before, keptUpTo, why })
}

export function onResyncRefused(state: WriterState, reason: string): void {
  state.resync = undefined
  count(state, 'not_begun')
  emit(state, { type: 'notBegun', reason })
}
