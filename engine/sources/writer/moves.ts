/**
 * Canonical moves without a block that moves it. Back to one of its own blocks, with nothing in the place of what stood above it: only our
 * own sequencer asks for that. Or to another beginning of a lazy state, while the node runs: our head has left what the upstreams have of
 * the state, or the chain was replaced deeper than can be undone. Then what was shown above canonical goes, the keeper empties the
 * directory and fills it again, and the next record has the new block as its base. Every older view is void from the keeper's first
 * step on, as after an unfold.
 */
import { dropPayload } from '../../flashblocks/sequence.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { KeeperAnswer, StoredHead } from '../../storage/types.ts'
import { forgetTold } from './changes.ts'
import { storedBlock } from './recover.ts'
import { count, emit, giveUp, publish, type WriterState } from './state.ts'
import type { LazyBeginning } from './types.ts'

export function onRewind(state: WriterState, to: StoredHead): void {
  state.rewind = { to, isAsked: false }
}

/** The keeper is asked when nothing is on its way to it. False: nothing has changed. */
export function tryRewind(state: WriterState): false {
  const { rewind, handed, whole, sealed, failure } = state
  const isBusy = handed !== undefined || whole !== undefined || sealed.length > 0
  if (rewind === undefined || rewind.isAsked || isBusy || failure !== undefined) return false
  state.rewind = { ...rewind, isAsked: true }
  for (const shelf of [state.held, state.early, state.rivals, state.lane]) shelf.clear()
  state.packetWait = undefined
  emit(state, { type: 'keeper', request: { type: 'rewind', to: rewind.to } })
  return false
}

/** The keeper's newest block is this one, which is in a table. @throws {Error} when it is not held: a broken invariant of our own memory */
export function onRewound(state: WriterState, hash: Bytes): void {
  const block = state.chain.finished(hash)
  if (block === undefined) throw new Error('the keeper has gone back to a block that is not held')
  state.chain.rewind(block)
  state.sequence = dropPayload(state.sequence)
  rewound(state)
  publish(state)
}

/** Canonical is where it was asked to be. */
export function rewound(state: WriterState): void {
  if (state.rewind === undefined) return
  state.rewind = undefined
  count(state, 'rewind')
}

export function onBegin(state: WriterState, { head, start, why }: LazyBeginning): void {
  if (state.options.isLazy !== true) throw new Error('a whole state cannot begin anew')
  state.beginning ??= { head, start, why, id: undefined }
}

/** The keeper is asked once it has nothing in hand. */
export function goOnBeginning(state: WriterState): void {
  const { beginning, options } = state
  if (beginning === undefined) return
  if (beginning.id === undefined) {
    if (state.chain.pending !== state.chain.canonical) count(state, 'begins_anew')
    giveUp(state)
  }
  const isBusy = state.handed !== undefined || state.failure !== undefined
  if (beginning.id !== undefined || isBusy) return
  const { id } = options.publisher.stored(beginning.head)
  state.beginning = { ...beginning, id }
  const genesisNumber = Number(options.chain.genesisNumber)
  const request = { type: 'begin', id, genesisNumber, start: beginning.start } as const
  emit(state, { type: 'keeper', request })
}

export function onBegun(
  state: WriterState,
  { id, head, unfolds }: KeeperAnswer & { readonly type: 'begun' },
): void {
  const { chain, options, beginning } = state
  if (beginning?.id !== id) throw new Error(`the keeper has begun as ${id}, which nobody asked for`)
  const before = chain.canonical.handle.number
  const handle = options.publisher.unfolded({ ...head, id, unfolds })
  chain.begin(storedBlock(options, handle, head.hash))
  const { start, why } = beginning
  const { safe, finalized, keptUpTo } = start
  state.beginning = undefined
  state.sequence = dropPayload(state.sequence)
  state.refused.length = 0
  state.fullSinceMs = undefined
  state.retryAtMs = 0
  state.blocksWithoutFeed = 0
  if (options.hasMarks === true) state.marks = { safe, finalized }
  state.labels.submitted.length = 0
  state.labels.stored = { safe, finalized }
  forgetTold(state.told)
  count(state, 'begun_anew')
  publish(state)
  emit(state, { type: 'begun', ...head, safe, finalized, before, keptUpTo, why })
}

export function onNotBegun(state: WriterState, reason: string): void {
  state.beginning = undefined
  count(state, 'not_begun')
  emit(state, { type: 'notBegun', reason })
}
