/** The writer: decides what readers see. Events in, effects out; one event at a time. */
import type { SignedEnvelope } from '../../primitives/transaction.ts'
import { ViewError } from '../../state/reader.ts'
import type { OpenedChain } from '../../storage/types.ts'
import { onAnswer } from './answers.ts'
import { onPacket, resumeHeld } from './packets.ts'
import { recoverBlocks, storedBlock } from './recover.ts'
import { queueSealed, trySealed } from './sealed.ts'
import {
  awaiting,
  count,
  createState,
  emit,
  flush,
  marksOf,
  publish,
  type WriterState,
  warn,
} from './state.ts'
import type { WriterEffect, WriterEvent, WriterOptions } from './types.ts'

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
  await guarded(state, async () => {
    switch (event.type) {
      case 'packet':
        return onPacket(state, event.packet)
      case 'sealed':
        return queueSealed(state, event.block)
      case 'answer':
        return onAnswer(state, event.answer)
      case 'feed':
        state.isConnected = event.isConnected
        if (!event.isConnected) onLost(state)
        return
      case 'ahead':
        return runAhead(state)
      case 'tick':
      case 'distrust':
        return
    }
  })
  if (state.distrust !== undefined) return stopHere(state)
  await guarded(state, async () => {
    // Canonical first; each step may make the next one of the other kind possible.
    while ((await trySealed(state)) || (await resumeHeld(state))) {}
  })
  if (state.chain.canonical !== canonical)
    emit(state, { type: 'keeper', request: { type: 'marks', ...marksOf(state) } })
}

function onDistrust(state: WriterState, reason: string): void {
  state.distrust ??= reason
  emit(state, { type: 'halted', message: reason, isFatal: false })
  stopHere(state)
}

/** What the keeper has in hand becomes canonical before; everything else above canonical goes. */
function stopHere(state: WriterState): void {
  state.held = []
  state.sealed.length = 0
  if (state.handed !== undefined) return
  if (state.whole !== undefined) state.chain.drop(state.whole)
  state.whole = undefined
  flush(state, state.chain.canonical)
}

async function runAhead(state: WriterState): Promise<void> {
  const open = awaiting(state)
  if (open !== undefined) await state.expected.run(open.execution)
}

/** What is held may lack its last flashblocks as well, and no End would tell. */
function onLost(state: WriterState): void {
  state.hasHole = true
  if (state.held.length > 0) count(state, 'feed_skipped', state.held.length)
  state.held = []
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

function gaugesOf({ chain, held, sealed, options }: WriterState): Readonly<Record<string, number>> {
  const { pages, freePages, heldPages, tables, records, oldestLease } = options.publisher.stats()
  return {
    head_canonical: chain.canonical.handle.number,
    head_complete: chain.complete.handle.number,
    head_pending: chain.pending.handle.number,
    fold_lag: chain.canonical.handle.number - chain.base.handle.number,
    held_frames: held.length,
    waiting_canonical_blocks: sealed.length,
    view_pages: pages,
    view_free_pages: freePages,
    view_held_pages: heldPages,
    view_tables: tables,
    view_records: records,
    view_oldest_lease: oldestLease,
  }
}
