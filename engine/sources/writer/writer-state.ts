/** State of the writer between two events, and small steps that all its parts share. */
import { assertAllowedAs } from '../../chain/block-state.ts'
import type { UpstreamBlock } from '../../chain/types.ts'
import {
  dropPayload,
  type Heights,
  type Sequence,
  startSequence,
} from '../../flashblocks/sequence.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { BlockId, LabelledHeads, StoredHead } from '../../storage/types.ts'
import { type EmittedChanges, nothingEmitted, takeChanges } from './changes.ts'
import { createExpectations, type Expectations } from './expected.ts'
import type { LiveBlock, OpenPart } from './live-block.ts'
import { LiveChain } from './live-chain.ts'
import { type FeedRun, type Received, ReorderBuffer } from './reorder-buffer.ts'
import {
  type LazyResync,
  WRITER_LIMITS,
  type WriterEffect,
  type WriterLimits,
  type WriterOptions,
} from './types.ts'

export type QueuedBlock = {
  readonly block: UpstreamBlock
  readonly arrivedAtMs: number
  /** Retries because the block's state was not available. */
  retries?: number
}
/** An event that waits for state which the writer has requested. */
export type Wait<Event> = {
  readonly event: Event
  readonly request: number
  /** Requests made so far, and the keys in them. */
  readonly rounds: number
  readonly keys: number
  readonly untilMs: number
  /** The response has arrived, so the event can be applied again. */
  readonly isOver: boolean
}

/**
 * Labelled heads: safe and finalized. A label is visible only after it is stored, because the next
 * start knows only stored labels. A start refuses to replace blocks up to the stored finalized one.
 */
type Labels = {
  /**
   * Labels of requests without a response, oldest first. The store may already have any of them.
   */
  readonly submitted: LabelledHeads[]
  /** Labels that the newest response reports as committed. */
  stored: LabelledHeads
}

/**
 * Label commits that may wait at once; the labels of an appended block can add one. Later labels
 * are submitted after a response.
 */
const MAX_SUBMITTED = 2

export type WriterState = {
  readonly options: WriterOptions
  readonly limits: WriterLimits
  readonly chain: LiveChain
  sequence: Sequence
  readonly feeds: Map<number, FeedRun>
  /** Packets of payloads whose parent is not known yet, index 0 first. */
  readonly buffered: ReorderBuffer
  /** Flashblocks of the payload in progress that wait for an earlier index. */
  readonly early: ReorderBuffer
  /** Packets of competing payloads, which would drop flashblocks of another feed. */
  readonly competing: ReorderBuffer
  /** Packets that arrived after the packet which waits for state. */
  readonly blocked: ReorderBuffer
  /** Time since when a flashblock is missing, and the gap that was last reported. */
  gapSinceMs: number | undefined
  reportedGap: string | undefined
  /** Payload whose End came after index 0 alone. */
  loneEnd: string | undefined
  /** Digests of wrong flashblocks, oldest first. */
  readonly wrongDigests: bigint[]
  /** Time of the last executed flashblock, and canonical blocks without flashblocks since. */
  executedAtMs: number
  blocksWithoutFeed: number
  /** The flashblock and the canonical block that wait for state. */
  packetWait: Wait<Received> | undefined
  blockWait: Wait<QueuedBlock> | undefined
  newestRequest: number
  /** Hashes of refused canonical blocks, oldest first. */
  readonly refused: string[]
  /** Labelled heads as the source reports them. */
  labelledHeads: LabelledHeads | undefined
  readonly labels: Labels
  /** Highest finalized number that was published; it stays when canonical goes back. */
  final: number
  /** Blocks above this number do not become final. */
  pinned: number | undefined
  readonly upstreamBlocks: QueuedBlock[]
  readonly expected: Expectations
  /** A full block that waits for its root. */
  fullBlock: LiveBlock | undefined
  /** The block that waits for the persistence thread to append it. */
  submitted: LiveBlock | undefined
  /** A requested resync; `id` is set once the persistence thread has the request. */
  resync: (LazyResync & { readonly id: BlockId | undefined }) | undefined
  /**
   * The block to which canonical goes back; `isRequested`: the persistence thread has the request.
   */
  rewind: { readonly to: StoredHead; readonly isRequested: boolean } | undefined
  /** Time since when canonical blocks find no memory, and time of the next retry. */
  fullSinceMs: number | undefined
  retryAtMs: number
  /** Reason why the writer takes no more events until the process restarts. */
  haltReason: string | undefined
  /** Reason why the persistence thread cannot write any more. */
  failure: string | undefined
  wakeAtMs: number | undefined
  effects: WriterEffect[]
  readonly warnedAtMs: Map<string, number>
  /** Changes that readers of the enriched feed have received. */
  readonly emitted: EmittedChanges
}

export function createState(options: WriterOptions, base: LiveBlock): WriterState {
  const limits = { ...WRITER_LIMITS, ...options.limits }
  const newBuffer = () =>
    new ReorderBuffer({ packets: limits.bufferedPackets, bytes: limits.bufferedBytes })
  const state: WriterState = {
    options,
    limits,
    chain: new LiveChain(base, {
      undoBlocks: limits.undoBlocks,
      onDrop({ handle }) {
        options.publisher.drop(handle)
        emit(state, { type: 'persistence', request: { type: 'forget', id: handle.id } })
      },
    }),
    sequence: startSequence,
    feeds: new Map(),
    buffered: newBuffer(),
    early: newBuffer(),
    competing: newBuffer(),
    blocked: newBuffer(),
    gapSinceMs: undefined,
    reportedGap: undefined,
    loneEnd: undefined,
    wrongDigests: [],
    executedAtMs: options.now(),
    blocksWithoutFeed: 0,
    packetWait: undefined,
    blockWait: undefined,
    newestRequest: 0,
    refused: [],
    labelledHeads: options.hasLabelledHeads === true ? options.store.labelledHeads() : undefined,
    labels: { submitted: [], stored: options.store.labelledHeads() },
    final: options.store.labelledHeads().finalized,
    pinned: undefined,
    upstreamBlocks: [],
    expected: createExpectations(options.now),
    fullBlock: undefined,
    submitted: undefined,
    resync: undefined,
    rewind: undefined,
    fullSinceMs: undefined,
    retryAtMs: 0,
    haltReason: undefined,
    failure: undefined,
    wakeAtMs: undefined,
    effects: [],
    warnedAtMs: new Map(),
    emitted: nothingEmitted(),
  }
  return state
}

export const emit = (state: WriterState, effect: WriterEffect): void =>
  void state.effects.push(effect)

export const count = (state: WriterState, what: string, by = 1): void =>
  emit(state, { type: 'count', what, by })

/**
 * Counts an incident, and logs the first of its kind in each sampling interval.
 * @param what one of a small set of names
 */
export function warn(state: WriterState, what: string, message: string): void {
  count(state, what)
  const now = state.options.now()
  const last = state.warnedAtMs.get(what)
  if (last !== undefined && now - last < state.limits.sampleMs) return
  state.warnedAtMs.set(what, now)
  emit(state, { type: 'warning', message })
}

/**
 * Returns the heights below which nothing is replaced. A submitted block and a block found equal to
 * its canonical block count as canonical.
 */
export const heightsOf = ({ chain, submitted }: WriterState): Heights => {
  const found = chain
    .above(chain.canonical)
    .find(({ canonicalBlock }) => canonicalBlock !== undefined)
  const decided = [chain.canonical, submitted, found].map((block) => block?.handle.number ?? 0)
  return {
    canonical: BigInt(Math.max(...decided)),
    complete: BigInt(chain.complete.handle.number),
  }
}

/**
 * Whether the submitted block will replace this block or its ancestor, so that nothing more of it
 * becomes visible.
 */
export const isReplaced = ({ chain, submitted }: WriterState, block: LiveBlock): boolean =>
  submitted !== undefined &&
  !chain.isAncestor(submitted, block) &&
  !chain.isAncestor(block, submitted)

/** Returns the open part of the block whose next flashblock is awaited. */
export function awaiting({ chain, sequence }: WriterState): OpenPart | undefined {
  const { pending } = chain
  return sequence.payload?.payloadId === pending.payloadId ? pending.open : undefined
}

/** Requests a tick at this time or earlier. */
export function wakeAt(state: WriterState, ms: number): void {
  state.wakeAtMs = Math.min(state.wakeAtMs ?? Number.POSITIVE_INFINITY, ms)
}

export type PublishDetails = {
  readonly transactions: readonly Bytes[]
  readonly publishMs: number
  readonly executeMs: number
}
const NO_DETAILS: PublishDetails = { transactions: [], publishMs: 0, executeMs: 0 }

/** Writes a snapshot of the current heads and reports it. */
export function publish(state: WriterState, details: PublishDetails = NO_DETAILS): void {
  const { canonical, complete, pending } = state.chain
  const snapshot = writeSnapshot(state)
  emit(state, {
    type: 'published',
    snapshot,
    canonical: canonical.handle.number,
    complete: complete.handle.number,
    pending: pending.handle.number,
    index: pending.index,
    ...details,
  })
  if (state.options.emitsChanges !== true) return
  const changes = takeChanges(state.emitted, state.chain, visibleLabels(state))
  if (changes !== undefined) emit(state, { type: 'changes', changes })
}

/** Writes a snapshot without a report, because no visible result has changed. */
export function writeSnapshot(state: WriterState): number {
  const { canonical, complete, pending } = state.chain
  assertAllowedAs('canonical', canonical.state)
  assertAllowedAs('complete', complete.state)
  assertAllowedAs('pending', pending.state)
  const labelledHeads = visibleLabels(state)
  state.final = Math.max(state.final, labelledHeads.finalized)
  return state.options.publisher.publish({
    canonical: canonical.handle,
    complete: complete.handle,
    pending: pending.handle,
    ...labelledHeads,
  })
}

/** Returns labels that are at most canonical, which may have gone back since they were stored. */
function visibleLabels(state: WriterState): LabelledHeads {
  const { stored, submitted } = state.labels
  const wanted = wantedLabels(state, state.chain.canonical.handle.number)
  const all = [stored, ...submitted, wanted]
  return {
    safe: Math.min(...all.map(({ safe }) => safe)),
    finalized: Math.min(...all.map(({ finalized }) => finalized)),
  }
}

/** Returns the labels to commit with a block that becomes canonical. */
export function labelsWith(state: WriterState, number: number): LabelledHeads {
  const labels = wantedLabels(state, number)
  state.labels.submitted.push(labels)
  return labels
}

/** Takes the labels of a response. Responses come in the order of their requests. */
export function takeLabels({ labels }: WriterState, stored: LabelledHeads): void {
  labels.submitted.shift()
  labels.stored = stored
}

/** Requests a separate commit of labels that differ from the last submitted ones. */
export function submitLabels(state: WriterState): void {
  const { submitted, stored } = state.labels
  const { handle } = state.submitted ?? state.chain.canonical
  const wanted = wantedLabels(state, handle.number)
  if (submitted.length >= MAX_SUBMITTED || isSame(wanted, submitted.at(-1) ?? stored)) return
  submitted.push(wanted)
  emit(state, { type: 'persistence', request: { type: 'marks', ...wanted } })
}

const isSame = (one: LabelledHeads, other: LabelledHeads): boolean =>
  one.safe === other.safe && one.finalized === other.finalized

/**
 * Returns labels of at most `canonical`. Without labels from a source they trail by fixed lags, and
 * finalized does not go back.
 */
function wantedLabels(
  { options, limits, labelledHeads, final, pinned }: WriterState,
  canonical: number,
): LabelledHeads {
  const first = Number(options.chain.genesisNumber)
  if (labelledHeads === undefined) {
    const isPinned = pinned !== undefined && pinned >= canonical - limits.pinBlocks
    const due = Math.min(canonical - limits.finalizedLag, isPinned ? pinned : canonical)
    const finalized = Math.max(first, due, Math.min(final, canonical))
    return { safe: Math.max(finalized, canonical - limits.safeLag), finalized }
  }
  return {
    safe: Math.min(labelledHeads.safe, canonical),
    finalized: Math.min(labelledHeads.finalized, canonical),
  }
}

/** Applies a change of labels, and publishes if the visible labels differ. */
export function relabel(state: WriterState, change: () => void): void {
  const before = visibleLabels(state)
  change()
  // No snapshot is consistent while blocks below the diff layers are replaced.
  if (state.submitted === undefined && !isSame(before, visibleLabels(state))) publish(state)
}

/** Moves pending back to `to`. The rest of its payload is stale. */
export function flush(state: WriterState, to = state.chain.complete): void {
  state.sequence = dropPayload(state.sequence)
  if (state.chain.pending === to) return
  state.chain.cutAbove(to)
  count(state, 'flush')
  publish(state)
}

/**
 * Drops everything that waits, and every block above canonical. A submitted block becomes canonical
 * first.
 */
export function giveUp(state: WriterState): void {
  for (const buffer of [state.buffered, state.early, state.competing, state.blocked]) buffer.clear()
  state.packetWait = undefined
  state.blockWait = undefined
  state.upstreamBlocks.length = 0
  if (state.submitted !== undefined) return
  if (state.fullBlock !== undefined) state.chain.drop(state.fullBlock)
  state.fullBlock = undefined
  flush(state, state.chain.canonical)
}

/** Handles a full arena: cancels the oldest reader and drops blocks above `to`. */
export function freeMemory(state: WriterState, to = state.chain.complete): void {
  warn(
    state,
    'memory_full',
    'the view memory is full: pending is dropped, the oldest reader stopped',
  )
  emit(state, { type: 'cancel', snapshot: state.options.publisher.stats().oldestLease })
  flush(state, to)
}
