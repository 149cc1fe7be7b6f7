/** What the writer knows between two events, and the small steps that all its parts share. */
import { assertShown } from '../../chain/life.ts'
import type { SealedBlock } from '../../chain/types.ts'
import {
  dropPayload,
  type Heights,
  type Sequence,
  startSequence,
} from '../../flashblocks/sequence.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { BlockId, Marks, StoredHead } from '../../storage/types.ts'
import { nothingTold, type Told, takeChanges } from './changes.ts'
import { createExpectations, type Expectations } from './expected.ts'
import type { LiveBlock, OpenPart } from './live-block.ts'
import { LiveChain } from './live-chain.ts'
import { type FeedRun, type Received, Shelf } from './shelf.ts'
import {
  type LazyBeginning,
  WRITER_LIMITS,
  type WriterEffect,
  type WriterLimits,
  type WriterOptions,
} from './types.ts'

export type QueuedBlock = {
  readonly block: SealedBlock
  readonly arrivedAtMs: number
  /** How often its state could not be had. */
  rests?: number
}
/** An event that waits for state which it has asked for. */
export type Wait<Event> = {
  readonly event: Event
  readonly request: number
  /** How often it has asked, and for how many keys. */
  readonly rounds: number
  readonly keys: number
  readonly untilMs: number
  /** What it asked for last is there. */
  readonly isOver: boolean
}

/**
 * Labelled heads: safe and finalized. A label is visible only once it is stored, because the next start lets no block be replaced that the
 * store calls final, and knows of no other.
 */
type Labels = {
  /** In requests that the persistence thread has not answered, the oldest first: the store may hold any of them already. */
  readonly submitted: Marks[]
  /** Committed, as its newest answer says. */
  stored: Marks
}

/** Requests for a commit of labels at once; with the labels of a block one more. What is wanted meanwhile is asked for after an answer. */
const MOST_SUBMITTED = 2

export type WriterState = {
  readonly options: WriterOptions
  readonly limits: WriterLimits
  readonly chain: LiveChain
  sequence: Sequence
  readonly feeds: Map<number, FeedRun>
  /** Packets of payloads whose parent is not known yet, index 0 first. */
  readonly held: Shelf
  /** Of the payload in progress, flashblocks that came before those that they follow. */
  readonly early: Shelf
  /** Packets of payloads that would drop what another feed has sent. */
  readonly rivals: Shelf
  /** Packets behind the one that waits for state. */
  readonly lane: Shelf
  /** Since when a flashblock is missing before others, and which: it was told of then. */
  gapSinceMs: number | undefined
  toldGap: string | undefined
  /** Payload of which an End came after index 0 alone. */
  loneEnd: string | undefined
  /** Digests of flashblocks that are wrong, oldest first. */
  readonly wrongDigests: bigint[]
  /** When a flashblock was last executed, and canonical blocks since. */
  executedAtMs: number
  blocksWithoutFeed: number
  /** Flashblock, and canonical block, that wait for state. */
  packetWait: Wait<Received> | undefined
  sealedWait: Wait<QueuedBlock> | undefined
  newestRequest: number
  /** Hashes of canonical blocks that were refused, oldest first. */
  readonly refused: string[]
  /** As the source says. */
  marks: Marks | undefined
  readonly labels: Labels
  /** Height that was finalized: it stays so where canonical goes back. */
  final: number
  /** What stands on this block is not to become final. */
  pinned: number | undefined
  readonly sealed: QueuedBlock[]
  readonly expected: Expectations
  /** Executed for its source alone, waiting for its root. */
  whole: LiveBlock | undefined
  /** Waiting for the keeper to append it. */
  handed: LiveBlock | undefined
  /** A lazy state is to begin anew; `id`: the keeper was asked to. */
  beginning: (LazyBeginning & { readonly id: BlockId | undefined }) | undefined
  /** Where canonical goes back to; `isAsked`: the keeper is on its way there. */
  rewind: { readonly to: StoredHead; readonly isAsked: boolean } | undefined
  /** Since when canonical blocks find no memory, and when to try again. */
  fullSinceMs: number | undefined
  retryAtMs: number
  /** Why nothing more is taken; until a restart. */
  distrust: string | undefined
  /** Why the keeper cannot write any more. */
  failure: string | undefined
  wakeAtMs: number | undefined
  effects: WriterEffect[]
  readonly warnedAtMs: Map<string, number>
  /** Remembers what readers of the enriched feed have got. */
  readonly told: Told
}

export function createState(options: WriterOptions, base: LiveBlock): WriterState {
  const limits = { ...WRITER_LIMITS, ...options.limits }
  const shelf = () => new Shelf({ packets: limits.heldPackets, bytes: limits.heldBytes })
  const state: WriterState = {
    options,
    limits,
    chain: new LiveChain(base, {
      undoBlocks: limits.undoBlocks,
      onDrop({ handle }) {
        options.publisher.drop(handle)
        emit(state, { type: 'keeper', request: { type: 'forget', id: handle.id } })
      },
    }),
    sequence: startSequence,
    feeds: new Map(),
    held: shelf(),
    early: shelf(),
    rivals: shelf(),
    lane: shelf(),
    gapSinceMs: undefined,
    toldGap: undefined,
    loneEnd: undefined,
    wrongDigests: [],
    executedAtMs: options.now(),
    blocksWithoutFeed: 0,
    packetWait: undefined,
    sealedWait: undefined,
    newestRequest: 0,
    refused: [],
    marks: options.hasMarks === true ? options.store.marks() : undefined,
    labels: { submitted: [], stored: options.store.marks() },
    final: options.store.marks().finalized,
    pinned: undefined,
    sealed: [],
    expected: createExpectations(options.now),
    whole: undefined,
    handed: undefined,
    beginning: undefined,
    rewind: undefined,
    fullSinceMs: undefined,
    retryAtMs: 0,
    distrust: undefined,
    failure: undefined,
    wakeAtMs: undefined,
    effects: [],
    warnedAtMs: new Map(),
    told: nothingTold(),
  }
  return state
}

export const emit = (state: WriterState, effect: WriterEffect): void =>
  void state.effects.push(effect)

export const count = (state: WriterState, what: string, by = 1): void =>
  emit(state, { type: 'count', what, by })

/** Counts, and logs the first of a kind in each sampling time. `what` is one of few names. */
export function warn(state: WriterState, what: string, message: string): void {
  count(state, what)
  const now = state.options.now()
  const last = state.warnedAtMs.get(what)
  if (last !== undefined && now - last < state.limits.sampleMs) return
  state.warnedAtMs.set(what, now)
  emit(state, { type: 'warning', message })
}

/** A block that the keeper is making durable is as good as canonical, and so is one that was found equal: nothing takes its place any more. */
export const heightsOf = ({ chain, handed }: WriterState): Heights => {
  const found = chain.above(chain.canonical).find(({ sealed }) => sealed !== undefined)
  const decided = [chain.canonical, handed, found].map((block) => block?.handle.number ?? 0)
  return {
    canonical: BigInt(Math.max(...decided)),
    complete: BigInt(chain.complete.handle.number),
  }
}

/** Whether the block that the keeper has in hand takes the place of this one, or of one that it stands on: nothing more is shown of it, or on it. */
export const isReplaced = ({ chain, handed }: WriterState, block: LiveBlock): boolean =>
  handed !== undefined && !chain.isAncestor(handed, block) && !chain.isAncestor(block, handed)

/** Of the block whose next flashblock is awaited. */
export function awaiting({ chain, sequence }: WriterState): OpenPart | undefined {
  const { pending } = chain
  return sequence.payload?.payloadId === pending.payloadId ? pending.open : undefined
}

/** Asks for a tick not later than this. */
export function wakeAt(state: WriterState, ms: number): void {
  state.wakeAtMs = Math.min(state.wakeAtMs ?? Number.POSITIVE_INFINITY, ms)
}

export type Shown = {
  readonly transactions: readonly Bytes[]
  readonly publishMs: number
  readonly executeMs: number
}
const NOTHING_SHOWN: Shown = { transactions: [], publishMs: 0, executeMs: 0 }

/** Writes a record of the heads as they are, and tells of it. */
export function publish(state: WriterState, shown: Shown = NOTHING_SHOWN): void {
  const { canonical, complete, pending } = state.chain
  const record = writeRecord(state)
  emit(state, {
    type: 'published',
    record,
    canonical: canonical.handle.number,
    complete: complete.handle.number,
    pending: pending.handle.number,
    index: pending.index,
    ...shown,
  })
  if (state.options.tellsChanges !== true) return
  const changes = takeChanges(state.told, state.chain, visibleLabels(state))
  if (changes !== undefined) emit(state, { type: 'changes', changes })
}

/** Writes a record without telling: nothing that a caller could ask for has changed. */
export function writeRecord(state: WriterState): number {
  const { canonical, complete, pending } = state.chain
  assertShown('canonical', canonical.state)
  assertShown('complete', complete.state)
  assertShown('pending', pending.state)
  const marks = visibleLabels(state)
  state.final = Math.max(state.final, marks.finalized)
  return state.options.publisher.publish({
    canonical: canonical.handle,
    complete: complete.handle,
    pending: pending.handle,
    ...marks,
  })
}

/** Never above canonical, which may have gone back since they were stored. */
function visibleLabels(state: WriterState): Marks {
  const { stored, submitted } = state.labels
  const wanted = wantedLabels(state, state.chain.canonical.handle.number)
  const all = [stored, ...submitted, wanted]
  return {
    safe: Math.min(...all.map(({ safe }) => safe)),
    finalized: Math.min(...all.map(({ finalized }) => finalized)),
  }
}

/** Labels for the commit of a block that becomes canonical. */
export function labelsWith(state: WriterState, number: number): Marks {
  const labels = wantedLabels(state, number)
  state.labels.submitted.push(labels)
  return labels
}

/** The persistence thread answers in the order in which it was asked. */
export function takeLabels({ labels }: WriterState, stored: Marks): void {
  labels.submitted.shift()
  labels.stored = stored
}

/** Asks for a commit of their own where they are not what was submitted last. */
export function submitLabels(state: WriterState): void {
  const { submitted, stored } = state.labels
  const { handle } = state.handed ?? state.chain.canonical
  const wanted = wantedLabels(state, handle.number)
  if (submitted.length >= MOST_SUBMITTED || isSame(wanted, submitted.at(-1) ?? stored)) return
  submitted.push(wanted)
  emit(state, { type: 'keeper', request: { type: 'marks', ...wanted } })
}

const isSame = (one: Marks, other: Marks): boolean =>
  one.safe === other.safe && one.finalized === other.finalized

/** At most `canonical`. Where no source says them they trail it by a fixed number of blocks, and what was final stays so. */
function wantedLabels(
  { options, limits, marks, final, pinned }: WriterState,
  canonical: number,
): Marks {
  const first = Number(options.chain.genesisNumber)
  if (marks === undefined) {
    const isPinned = pinned !== undefined && pinned >= canonical - limits.pinBlocks
    const due = Math.min(canonical - limits.finalizedLag, isPinned ? pinned : canonical)
    const finalized = Math.max(first, due, Math.min(final, canonical))
    return { safe: Math.max(finalized, canonical - limits.safeLag), finalized }
  }
  return { safe: Math.min(marks.safe, canonical), finalized: Math.min(marks.finalized, canonical) }
}

/** Publishes where the visible labels change. */
export function relabel(state: WriterState, change: () => void): void {
  const before = visibleLabels(state)
  change()
  // While blocks are replaced below the tables there is no state in between to show.
  if (state.handed === undefined && !isSame(before, visibleLabels(state))) publish(state)
}

/** Pending goes back to the complete head, or to one below it, and the rest of its payload is stale. */
export function flush(state: WriterState, to = state.chain.complete): void {
  state.sequence = dropPayload(state.sequence)
  if (state.chain.pending === to) return
  state.chain.cutAbove(to)
  count(state, 'flush')
  publish(state)
}

/** All that waits goes, and what stands above canonical; what the keeper has in hand becomes canonical before. */
export function giveUp(state: WriterState): void {
  for (const shelf of [state.held, state.early, state.rivals, state.lane]) shelf.clear()
  state.packetWait = undefined
  state.sealedWait = undefined
  state.sealed.length = 0
  if (state.handed !== undefined) return
  if (state.whole !== undefined) state.chain.drop(state.whole)
  state.whole = undefined
  flush(state, state.chain.canonical)
}

/** The arena has no room: the oldest reader is to be stopped, and what stands above `to` makes place. */
export function freeMemory(state: WriterState, to = state.chain.complete): void {
  warn(
    state,
    'memory_full',
    'the view memory is full: pending is dropped, the oldest reader stopped',
  )
  emit(state, { type: 'cancel', record: state.options.publisher.stats().oldestLease })
  flush(state, to)
}
