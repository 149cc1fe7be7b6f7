/** A block in progress: its due times, and the events for which the sequencer waits. */
import type { UpstreamBlock } from '../../chain/types.ts'
import type { Header } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { RecordedBlock } from './log.ts'
import type { Payload } from './payload.ts'
import type { Schedule } from './schedule.ts'
import type { ParentBlock, SequencerPorts } from './types.ts'

/**
 * The caller waits for `ms`, or less if the event in `until` may have come. The event is another
 * complete head or news of the txpool. A control always ends the wait.
 */
export type Wait = { readonly ms: number; readonly until: 'parent' | 'txpool' | 'time' }

export type Building = {
  readonly parent: ParentBlock
  readonly payload: Payload
  readonly schedule: Schedule
  /** Time of the next flashblock; undefined: the next tick. */
  firstAt: number | undefined
  /** Start of the newest flashblock in chain time. */
  lastAt: number
  /**
   * Flashblocks of an earlier run of the process, up to `index`. The seal waits for them until this
   * chain time.
   */
  readonly replayed?: { readonly index: number; readonly until: number }
}

/** Milliseconds between looks at the complete head without an event. */
export const POLL_MS = 20
export const NOW: Wait = { ms: 0, until: 'time' }
export const FOR_PARENT: Wait = { ms: POLL_MS, until: 'parent' }
/** Waits until a control comes. */
export const STANDING: Wait = { ms: 60_000, until: 'time' }
/**
 * Milliseconds for which a seal waits until a replayed block is visible. On a slower machine the
 * block becomes visible as a full block.
 */
export const VISIBLE_MS = 3_000

/** Returns the time of the next flashblock; infinity: no further one. */
export function nextDue({ payload, schedule, firstAt, lastAt }: Building, apart: number): number {
  if (payload.index >= schedule.targetIndex) return Number.POSITIVE_INFINITY
  if (firstAt !== undefined) return firstAt
  return schedule.ticks.find((tick) => tick >= lastAt + apart) ?? Number.POSITIVE_INFINITY
}

/** Returns the schedule of a block that was in progress when the process died. */
export function reschedule(planned: Schedule, { flashblocks, end }: RecordedBlock): Schedule {
  const announced = flashblocks.reduce((last, { message }) => message.targetIndex || last, 0)
  return {
    ...planned,
    // Followers end the payload at the announced index.
    targetIndex: announced || planned.targetIndex,
    sealAt: end ? Number.NEGATIVE_INFINITY : planned.sealAt,
  }
}

/**
 * Whether replayed flashblocks are not visible yet. The canonical block can overtake them on its
 * way to the writer. Flashblocks from before the restart would then not become visible again one by
 * one.
 */
export function isStillReplayed(
  { replayed, payload }: Building,
  now: number,
  { isVisible }: Pick<SequencerPorts, 'isVisible'>,
): boolean {
  if (replayed === undefined || now >= replayed.until) return false
  const { number } = payload.execution.attributes
  return !isVisible({ number: Number(number), index: replayed.index })
}

/** Whether the complete head is the last sealed block in its final form. */
export const isSealed = (header: Header, block: UpstreamBlock): boolean =>
  header.number === BigInt(block.number) &&
  header.timestamp === block.timestamp &&
  header.gasUsed === block.gasUsed &&
  equalBytes(header.parentHash, block.parentHash) &&
  equalBytes(header.receiptsRoot, block.receiptsRoot)

/** Replays flashblocks, and returns the first difference from execution as a text. */
export async function replayAll(
  payload: Payload,
  flashblocks: RecordedBlock['flashblocks'],
): Promise<string | undefined> {
  for (const { message } of flashblocks) {
    const difference = await payload.replay(message)
    if (difference !== undefined) return difference
  }
  return undefined
}

/** Closes the payload if `run` fails. */
export async function orClose<T>(payload: Payload, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    payload.close()
    throw error
  }
}
