/**
 * Mode of the writer (plain, recorded or replaying), with its clock and the parameters of its
 * start.
 */
import { randomInt } from 'node:crypto'
import type { WriterLimits } from '../../engine/sources/writer/types.ts'
import type { ChainWriter } from '../../engine/sources/writer/writer.ts'
import type { Line, ReplayData } from '../record/lines.ts'
import { openRequestLookahead, type RequestLookahead } from '../record/lookahead.ts'
import { openRecord } from '../record/reading.ts'
import { RecordError } from '../record/sections.ts'
import {
  type GivingClock,
  givingClock,
  MACHINE,
  type TakingClock,
  takingClock,
  type WriterClock,
} from './clock.ts'

type Opening = { readonly seed: number; readonly limits: Partial<WriterLimits> }
export type RecordingMode = Opening &
  (
    | { readonly type: 'none'; readonly clock: WriterClock }
    | { readonly type: 'record'; readonly clock: TakingClock }
    | {
        readonly type: 'replay'
        readonly clock: GivingClock
        readonly lines: Iterable<Line>
        /** Recorded client requests; undefined if there are none. */
        readonly requests: RequestLookahead | undefined
        readonly data: ReplayData
        readonly isCut: () => boolean
      }
  )

/** @throws {RecordError} */
export function openRecordingMode({
  isRecorded,
  replay: data,
  limits = {},
}: {
  readonly isRecorded?: boolean | undefined
  readonly replay?: ReplayData | undefined
  readonly limits?: Partial<WriterLimits> | undefined
}): RecordingMode {
  if (data !== undefined) return replayMode(data)
  const opening = { seed: randomInt(2 ** 31), limits }
  if (isRecorded !== true) return { type: 'none', clock: MACHINE, ...opening }
  const clock = takingClock()
  clock.start()
  return { type: 'record', clock, ...opening }
}

function replayMode(data: ReplayData): RecordingMode {
  const { head, lines, isCut } = openRecord(data.path)
  const clock = givingClock()
  const first = lines[Symbol.iterator]().next().value as Line | undefined
  if (first?.type !== 'open')
    throw new RecordError(`${data.path} ends before its node started: nothing can be replayed`)
  clock.set(first)
  const { seed, limits } = first
  const requests = head.requests && openRequestLookahead(data.path)
  return { type: 'replay', clock, lines, requests, data, isCut, seed, limits }
}

/**
 * Returns earlier gauges during an event, because reading them calls the clock, whose readings are
 * counted.
 */
export function recordedWriter(writer: ChainWriter): ChainWriter {
  let isBusy = false
  let gauges = writer.gauges()
  return {
    ...writer,
    async apply(event) {
      isBusy = true
      try {
        return await writer.apply(event)
      } finally {
        isBusy = false
      }
    },
    gauges() {
      if (!isBusy) gauges = writer.gauges()
      return gauges
    },
  }
}

export const stampOf = ({ type, clock }: RecordingMode): number | undefined =>
  type === 'none' ? undefined : clock.wallMs()
