/** The writer: decides what readers see. Events in, effects out; one event at a time. */
import type { SignedEnvelope } from '../../primitives/transaction.ts'
import { ViewError } from '../../state/reader.ts'
import type { Marks, OpenedChain } from '../../storage/types.ts'
import { onAnswer } from './answers.ts'
import { nameEnd } from './ends.ts'
import { isAnyConnected, onFeed } from './feeds.ts'
import { goOnBeginning, onBegin, onRewind, tryRewind } from './moves.ts'
import { onPacket, onPacketFetched, resumePackets } from './packets.ts'
import { recoverBlocks, storedBlock } from './recover.ts'
import { onSealedFetched, queueSealed, trySealed } from './sealed.ts'
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
} from './state.ts'
import type { WriterEffect, WriterEvent, WriterOptions } from './types.ts'
import { need } from './waits.ts'

export interface ChainWriter {
  /**
   * Applies one event to the end; the next one only after that. Throws when an invariant of our own memory is broken: nothing may be
   * published after that.
   */
  apply(event: WriterEvent): Promise<readonly WriterEffect[]>
  /** When a tick is due, in monotonic milliseconds. */
  wakeAtMs(): number | undefined
  /** The txpool has accepted it: it will probably be in the next flashblock. May be called while an event is applied. */
  expect(transaction: SignedEnvelope): void
  /** Whether an event `ahead` would find something to do. */
  canRunAhead(): boolean
  /** Whether a block hash is one that flashblocks can stand on now. */
  knows(hash: Uint8Array): boolean
  gauges(): Readonly<Record<string, number>>
}

/**
 * Puts the blocks that the keeper found appended and not folded back into tables and publishes the first record: readers have a chain
 * when this returns. `opened`: the keeper's; the publisher was opened on its fold head.
 */
export function openWriter(
  options: WriterOptions,
  opened: OpenedChain,
): {
  readonly writer: ChainWriter
  readonly effects: readonly WriterEffect[]
} {
  const base = storedBlock(options, options.publisher.base, opened.foldHead.hash)
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
    canRunAhead() {
      const open = awaiting(state)
      return (
        state.distrust === undefined && open !== undefined && state.expected.canRun(open.execution)
      )
    },
    knows: (hash) => state.chain.finished(hash) !== undefined,
    gauges: () => gaugesOf(state),
  }
  return { writer, effects: takeEffects(state) }
}

async function applyEvent(state: WriterState, event: WriterEvent): Promise<void> {
  const { canonical } = state.chain
  if (event.type === 'tick') state.wakeAtMs = undefined
  if (event.type === 'distrust') onDistrust(state, event.reason)
  if (state.distrust !== undefined && event.type !== 'answer') return
  if (state.beginning !== undefined && !MEANWHILE.has(event.type)) return
  await guarded(state, async () => {
    switch (event.type) {
      case 'packet':
        return onPacket(state, event.packet)
      case 'sealed':
        return queueSealed(state, event.block)
      case 'rewind':
        return onRewind(state, event.to)
      case 'pin':
        state.pinned = event.number
        return
      case 'answer':
        return onAnswer(state, event.answer)
      case 'feed':
        return onFeed(state, event.feed, event)
      case 'marks':
        return onMarks(state, event)
      case 'fetched':
        return onFetched(state, event)
      case 'begin':
        return onBegin(state, event)
      case 'ahead':
        return runAhead(state)
      case 'tick':
      case 'distrust':
        return
    }
  })
  if (state.distrust !== undefined) return giveUp(state)
  if (state.beginning !== undefined) return goOnBeginning(state)
  await guarded(state, async () => {
    // Canonical first; each step may make the next one of the other kind possible.
    while ((await trySealed(state)) || (await nameEnd(state)) || (await resumePackets(state))) {}
    tryRewind(state)
  })
  if (state.chain.canonical !== canonical) submitLabels(state)
}

/** Heard while a lazy state begins anew. */
const MEANWHILE: ReadonlySet<WriterEvent['type']> = new Set([
  ...(['answer', 'feed', 'distrust'] as const),
])

function onDistrust(state: WriterState, reason: string): void {
  state.distrust ??= reason
  emit(state, { type: 'halted', message: reason, isFatal: false })
  giveUp(state)
}

async function runAhead(state: WriterState): Promise<void> {
  const open = awaiting(state)
  const missing = open && (await state.expected.run(open.execution))
  // Its flashblock may come: then this is there.
  if (missing !== undefined) need(state, missing, 'flashblock')
}

/** A label that goes back is visible at once, one that goes on when it is stored. */
function onMarks(state: WriterState, { safe, finalized }: Marks): void {
  relabel(state, () => {
    state.marks = { safe, finalized }
  })
  submitLabels(state)
}

async function onFetched(
  state: WriterState,
  { request, failed }: { readonly request: number; readonly failed?: string | undefined },
): Promise<void> {
  const { packetWait, sealedWait } = state
  if (packetWait?.request === request) return onPacketFetched(state, packetWait, failed)
  if (sealedWait?.request === request) onSealedFetched(state, failed)
}

/** A state that is gone under an execution: the answers that say why are in the mailbox; the block is executed again after them. */
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
  const { chain, held, early, rivals, lane, sealed, options, limits } = state
  const { pages, freePages, heldPages, tables, records, oldestLease } = options.publisher.stats()
  const isAway = state.blocksWithoutFeed >= limits.silentBlocks || !isAnyConnected(state)
  return {
    head_canonical: chain.canonical.handle.number,
    head_complete: chain.complete.handle.number,
    head_pending: chain.pending.handle.number,
    fold_lag: chain.canonical.handle.number - chain.base.handle.number,
    held_frames: held.size + early.size + rivals.size + lane.size,
    waiting_canonical_blocks: sealed.length,
    /** Since a flashblock was executed: canonical blocks hide it from whoever looks at publishes. */
    feed_silent_ms: Math.round(options.now() - state.executedAtMs),
    feed_away: state.feeds.size > 0 && isAway ? 1 : 0,
    view_pages: pages,
    view_free_pages: freePages,
    view_held_pages: heldPages,
    view_tables: tables,
    view_records: records,
    view_oldest_lease: oldestLease,
  }
}
