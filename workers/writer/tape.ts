/** Whether the writer is recorded, or is given a record: its clock, and what it was opened with. */
import { randomInt } from 'node:crypto'
import type { WriterLimits } from '../../engine/sources/writer/types.ts'
import type { ChainWriter } from '../../engine/sources/writer/writer.ts'
import { type RequestsAhead, requestsAhead } from '../record/ahead.ts'
import type { Line, ReplayData } from '../record/lines.ts'
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
export type Tape = Opening &
  (
    | { readonly type: 'none'; readonly clock: WriterClock }
    | { readonly type: 'record'; readonly clock: TakingClock }
    | {
        readonly type: 'replay'
        readonly clock: GivingClock
        readonly lines: Iterable<Line>
        /** Of its clients; undefined: they are not in it. */
        readonly requests: RequestsAhead | undefined
        readonly data: ReplayData
        readonly isCut: () => boolean
      }
  )

/** @throws {RecordError} */
export function openTape({
  isRecorded,
  replay: data,
  limits = {},
}: {
  readonly isRecorded?: boolean | undefined
  readonly replay?: ReplayData | undefined
  readonly limits?: Partial<WriterLimits> | undefined
}): Tape {
  if (data !== undefined) return replayTape(data)
  const opening = { seed: randomInt(2 ** 31), limits }
  if (isRecorded !== true) return { type: 'none', clock: MACHINE, ...opening }
  const clock = takingClock()
  clock.begin()
  return { type: 'record', clock, ...opening }
}

function replayTape(data: ReplayData): Tape {
  const { head, lines, isCut } = openRecord(data.path)
  const clock = givingClock()
  const first = lines[Symbol.iterator]().next().value as Line | undefined
  if (first?.type !== 'open')
    throw new RecordError(`${data.path} ends before its node has begun: nothing can be replayed`)
  clock.set(first)
  const { seed, limits } = first
  const requests = head.requests && requestsAhead(data.path)
  return { type: 'replay', clock, lines, requests, data, isCut, seed, limits }
}

/** Looking at its gauges asks the clock: not in the middle of an event, whose answers are counted. */
export function tapedWriter(writer: ChainWriter): ChainWriter {
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

/** What requests to the keeper are stamped with. */
export const stampOf = ({ type, clock }: Tape): number | undefined =>
  type === 'none' ? undefined : clock.wallMs()
