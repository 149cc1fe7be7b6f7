/** The writer decides what readers see. Events become effects, one event at a time. */
import type { SignedEnvelope } from '../../primitives/transaction.ts'
import { ViewError } from '../../state/reader.ts'
import type { LabelledHeads, OpenedChain } from '../../storage/types.ts'
import { nameEnd } from './ends.ts'
import { isAnyConnected, onFeed } from './feeds.ts'
import { continueResync, onResync, onRewind, tryRewind } from './moves.ts'
import { onPacket, onPacketFetched, resumePackets } from './packets.ts'
import { recoverBlocks, storedBlock } from './recover.ts'
import { onResponse } from './responses.ts'
import type { WriterEffect, WriterEvent, WriterOptions } from './types.ts'
import { onUpstreamBlockFetched, queueUpstreamBlock, tryUpstreamBlock } from './upstream-block.ts'
import { need } from './waits.ts'
import {
  awaiting,
  createState,
  emit,
  flush,
  giveUp,
  publish,
  relabel,
  submitLabels,
  type WriterState,
  warn,
} from './writer-state.ts'

export interface ChainWriter {
  /**
   * Applies one event; the caller waits before the next one.
   * @throws {Error} when an invariant of the writer's memory is broken; nothing may be published
   * afterwards
   */
  apply(event: WriterEvent): Promise<readonly WriterEffect[]>
  /** Time of the next tick in monotonic milliseconds. */
  wakeAtMs(): number | undefined
  /**
   * Notes an accepted txpool transaction that is likely in the next flashblock. The call is safe
   * while an event is applied.
   */
  expect(transaction: SignedEnvelope): void
  /** Whether an event `ahead` has work to do. */
  canSpeculate(): boolean
  /**
   * Whether the block with this hash is finished, and not below the parent of pending. A copy of an
   * older flashblock stands on such a lower block.
   */
  knows(hash: Uint8Array): boolean
  gauges(): Readonly<Record<string, number>>
}

/**
 * Puts unpersisted blocks back into diff layers and publishes the first snapshot. Readers have a
 * chain when this returns.
 * @param opened what the persistence thread found; the publisher starts at its persisted head
 */
export function openWriter(
  options: WriterOptions,
  opened: OpenedChain,
): {
  readonly writer: ChainWriter
  readonly effects: readonly WriterEffect[]
} {
  const base = storedBlock(options, options.publisher.base, opened.persistedHead.hash)
  const state = createState(options, base)
  recoverBlocks(state, opened)
  publish(state)
  submitLabels(state)
  const writer: ChainWriter = {
    async apply(event) {
      await applyEvent(state, event)
      return takeEffects(state)
    },
    wakeAtMs: () => state.wakeAtMs,
    expect: (transaction) => state.expected.add(transaction),
    canSpeculate() {
      const open = awaiting(state)
      return (
        state.haltReason === undefined &&
        open !== undefined &&
        state.expected.canRun(open.execution)
      )
    },
    knows(hash) {
      const { chain } = state
      const number = chain.finished(hash)?.handle.number
      return number !== undefined && number + 1 >= chain.pending.handle.number
    },
    gauges: () => gaugesOf(state),
  }
  return { writer, effects: takeEffects(state) }
}

async function applyEvent(state: WriterState, event: WriterEvent): Promise<void> {
  const { canonical } = state.chain
  if (event.type === 'tick') state.wakeAtMs = undefined
  if (event.type === 'distrust') onHaltRequest(state, event.reason)
  if (state.haltReason !== undefined && event.type !== 'answer') return
  if (state.resync !== undefined && !MEANWHILE.has(event.type)) return
  await guarded(state, async () => {
    switch (event.type) {
      case 'packet':
        return onPacket(state, event.packet)
      case 'sealed':
        return queueUpstreamBlock(state, event.block)
      case 'rewind':
        return onRewind(state, event.to)
      case 'pin':
        state.pinned = event.number
        return
      case 'answer':
        return onResponse(state, event.response)
      case 'feed':
        return onFeed(state, event.feed, event)
      case 'marks':
        return onLabelledHeads(state, event)
      case 'fetched':
        return onFetched(state, event)
      case 'begin':
        return onResync(state, event)
      case 'ahead':
        return runSpeculatively(state)
      case 'tick':
      case 'distrust':
        return
    }
  })
  if (state.haltReason !== undefined) return giveUp(state)
  if (state.resync !== undefined) return continueResync(state)
  await guarded(state, async () => {
    // Canonical blocks go first. Each step can make a step of the other kind possible.
    while (
      (await tryUpstreamBlock(state)) ||
      (await nameEnd(state)) ||
      (await resumePackets(state))
    ) {}
    tryRewind(state)
  })
  if (state.chain.canonical !== canonical) submitLabels(state)
}

/** Events that are handled during a resync. */
const MEANWHILE: ReadonlySet<WriterEvent['type']> = new Set([
  ...(['answer', 'feed', 'distrust'] as const),
])

function onHaltRequest(state: WriterState, reason: string): void {
  state.haltReason ??= reason
  emit(state, { type: 'halted', message: reason, isFatal: false })
  giveUp(state)
}

async function runSpeculatively(state: WriterState): Promise<void> {
  const open = awaiting(state)
  const missing = open && (await state.expected.run(open.execution))
  // The state is requested now, so that it is there when the flashblock arrives.
  if (missing !== undefined) need(state, missing, 'flashblock')
}

/**
 * Takes new labelled heads. A lower label is visible at once, a higher label after it is stored.
 */
function onLabelledHeads(state: WriterState, { safe, finalized }: LabelledHeads): void {
  relabel(state, () => {
    state.labelledHeads = { safe, finalized }
  })
  submitLabels(state)
}

async function onFetched(
  state: WriterState,
  { request, failed }: { readonly request: number; readonly failed?: string | undefined },
): Promise<void> {
  const { packetWait, blockWait } = state
  if (packetWait?.request === request) return onPacketFetched(state, packetWait, failed)
  if (blockWait?.request === request) onUpstreamBlockFetched(state, failed)
}

/**
 * Runs a step whose state can be lost. Responses in the mailbox give the reason, and the block is
 * executed again after them.
 */
async function guarded(state: WriterState, run: () => Promise<void>): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    warn(state, 'view_lost', `state under a block is gone (${error.reason}): ${error.message}`)
    flush(state)
    state.retryAtMs = state.options.now() + state.limits.retryMs
    state.wakeAtMs = Math.min(state.wakeAtMs ?? state.retryAtMs, state.retryAtMs)
  }
}

function takeEffects(state: WriterState): readonly WriterEffect[] {
  const { effects } = state
  state.effects = []
  return effects
}

function gaugesOf(state: WriterState): Readonly<Record<string, number>> {
  const { chain, buffered, early, competing, blocked, upstreamBlocks, options, limits } = state
  const { pages, freePages, pinnedPages, diffLayers, snapshots, oldestLease } =
    options.publisher.stats()
  const isFeedDown = state.blocksWithoutFeed >= limits.silentBlocks || !isAnyConnected(state)
  return {
    head_canonical: chain.canonical.handle.number,
    head_complete: chain.complete.handle.number,
    head_pending: chain.pending.handle.number,
    fold_lag: chain.canonical.handle.number - chain.base.handle.number,
    held_frames: buffered.size + early.size + competing.size + blocked.size,
    waiting_canonical_blocks: upstreamBlocks.length,
    /**
     * Milliseconds since the last executed flashblock. Publishes do not show this time, because
     * canonical blocks publish too.
     */
    feed_silent_ms: Math.round(options.now() - state.executedAtMs),
    feed_away: state.feeds.size > 0 && isFeedDown ? 1 : 0,
    view_pages: pages,
    view_free_pages: freePages,
    view_held_pages: pinnedPages,
    view_tables: diffLayers,
    view_records: snapshots,
    view_oldest_lease: oldestLease,
  }
}
