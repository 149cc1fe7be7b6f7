/** A block in progress: when what is due of it, and what its sequencer waits for. */
import type { SealedBlock } from '../../chain/types.ts'
import type { Header } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { RecordedBlock } from './log.ts'
import type { Payload } from './payload.ts'
import type { Schedule } from './schedule.ts'
import type { ParentBlock, SequencerPorts } from './types.ts'

/**
 * Call again after `ms`, earlier when what `until` says may have come: another complete head, or news of the txpool. Whatever it says, a
 * control that comes is not waited with.
 */
export type Wait = { readonly ms: number; readonly until: 'parent' | 'txpool' | 'time' }

export type Building = {
  readonly parent: ParentBlock
  readonly payload: Payload
  readonly schedule: Schedule
  /** When the next flashblock is due; undefined: on a tick. */
  firstAt: number | undefined
  /** When the newest flashblock was begun, in chain time. */
  lastAt: number
  /** Flashblocks of an earlier run of the process: up to this index, waited for until this chain time. */
  readonly replayed?: { readonly index: number; readonly until: number }
}

/** How often the complete head is looked at while nothing says that it moved. */
export const POLL_MS = 20
export const NOW: Wait = { ms: 0, until: 'time' }
export const FOR_PARENT: Wait = { ms: POLL_MS, until: 'parent' }
/** Until a control comes. */
export const STANDING: Wait = { ms: 60_000, until: 'time' }
/** Milliseconds that a replayed block waits to be shown before it is sealed: a machine that is slower than that shows it whole. */
export const SHOWN_MS = 3_000

/** Infinity: no further flashblock. */
export function nextDue({ payload, schedule, firstAt, lastAt }: Building, apart: number): number {
  if (payload.index >= schedule.targetIndex) return Number.POSITIVE_INFINITY
  if (firstAt !== undefined) return firstAt
  return schedule.ticks.find((tick) => tick >= lastAt + apart) ?? Number.POSITIVE_INFINITY
}

/** The schedule of a block that was in progress when the process died. */
export function scheduleAgain(planned: Schedule, { flashblocks, end }: RecordedBlock): Schedule {
  const announced = flashblocks.reduce((last, { message }) => message.targetIndex || last, 0)
  return {
    ...planned,
    // Followers take the announced index for the end of the payload.
    targetIndex: announced || planned.targetIndex,
    sealAt: end ? Number.NEGATIVE_INFINITY : planned.sealAt,
  }
}

/**
 * The canonical block comes to a writer by another road than flashblocks, and overtakes them where there is much to execute at once.
 * What was shown before the process died would then never be shown again in the steps in which it was.
 */
export function isStillReplayed(
  { replayed, payload }: Building,
  now: number,
  { isShown }: Pick<SequencerPorts, 'isShown'>,
): boolean {
  if (replayed === undefined || now >= replayed.until) return false
  const { number } = payload.execution.attributes
  return !isShown({ number: Number(number), index: replayed.index })
}

/** Whether the complete head is the block that was sealed last, in its final form. */
export const isSealed = (header: Header, block: SealedBlock): boolean =>
  header.number === BigInt(block.number) &&
  header.timestamp === block.timestamp &&
  header.gasUsed === block.gasUsed &&
  equalBytes(header.parentHash, block.parentHash) &&
  equalBytes(header.receiptsRoot, block.receiptsRoot)

/** A text: how one of the packets differs from what execution gives. */
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

/** A payload that comes to nothing is closed here. */
export async function orClose<T>(payload: Payload, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    payload.close()
    throw error
  }
}
