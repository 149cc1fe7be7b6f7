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
import { createExpectations, type Expectations } from './expected.ts'
import type { LiveBlock, OpenPart } from './live-block.ts'
import { LiveChain } from './live-chain.ts'
import {
  type FeedPacket,
  WRITER_LIMITS,
  type WriterEffect,
  type WriterLimits,
  type WriterOptions,
} from './types.ts'

export type QueuedBlock = { readonly block: SealedBlock; readonly arrivedAtMs: number }

export type WriterState = {
  readonly options: WriterOptions
  readonly limits: WriterLimits
  readonly chain: LiveChain
  sequence: Sequence
  isConnected: boolean
  /** Packets may have been lost inside the payload in progress: its End alone proves nothing. */
  hasHole: boolean
  /** Payload whose later flashblocks were seen without its first. */
  headless: string | undefined
  /** Packets of payloads whose parent is not known yet, index 0 first. */
  held: FeedPacket[]
  readonly sealed: QueuedBlock[]
  readonly expected: Expectations
  /** Executed for its source alone, waiting for its root. */
  whole: LiveBlock | undefined
  /** Waiting for the keeper to append it. */
  handed: LiveBlock | undefined
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
}

export function createState(options: WriterOptions, base: LiveBlock): WriterState {
  const limits = { ...WRITER_LIMITS, ...options.limits }
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
    isConnected: false,
    hasHole: false,
    headless: undefined,
    held: [],
    sealed: [],
    expected: createExpectations(options.now),
    whole: undefined,
    handed: undefined,
    fullSinceMs: undefined,
    retryAtMs: 0,
    distrust: undefined,
    failure: undefined,
    wakeAtMs: undefined,
    effects: [],
    warnedAtMs: new Map(),
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

/** A block that the keeper is making durable is as good as canonical: nothing takes its place any more. */
export const heightsOf = ({ chain, handed }: WriterState): Heights => ({
  canonical: BigInt(Math.max(chain.canonical.handle.number, handed?.handle.number ?? 0)),
  complete: BigInt(chain.complete.handle.number),
})

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
}

/** Writes a record without telling: nothing that a caller could ask for has changed. */
export function writeRecord(state: WriterState): number {
  const { canonical, complete, pending } = state.chain
  assertShown('canonical', canonical.state)
  assertShown('complete', complete.state)
  assertShown('pending', pending.state)
  return state.options.publisher.publish({
    canonical: canonical.handle,
    complete: complete.handle,
    pending: pending.handle,
    ...marksOf(state),
  })
}

/** Safe and finalized trail canonical by a fixed number of blocks: the sequencer of this chain is the only source of truth there is. */
export function marksOf({ options, limits, chain }: WriterState): {
  readonly safe: number
  readonly finalized: number
} {
  const first = Number(options.chain.genesisNumber)
  const behind = (lag: number) => Math.max(first, chain.canonical.handle.number - lag)
  return { safe: behind(limits.safeLag), finalized: behind(limits.finalizedLag) }
}

/** Pending goes back to the complete head, or to one below it, and the rest of its payload is stale. */
export function flush(state: WriterState, to = state.chain.complete): void {
  state.sequence = dropPayload(state.sequence)
  if (state.chain.pending === to) return
  state.chain.cutAbove(to)
  count(state, 'flush')
  publish(state)
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
