/**
 * Replays a recording through the writer, in order and by its clock, and compares what becomes
 * visible.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ChainReader } from '../../engine/chain/types.ts'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { WriterEffect, WriterEvent } from '../../engine/sources/writer/types.ts'
import type { ChainWriter } from '../../engine/sources/writer/writer.ts'
import type { PersistenceResponse } from '../../engine/storage/types.ts'
import {
  type FlashblockPosition,
  type Line,
  nameOf,
  type ReplayData,
  type ReplayEnd,
  type ReplayStatus,
  type ResponseName,
  type VisibleHeads,
} from '../record/lines.ts'
import type { ReplayLine, RequestLookahead } from '../record/lookahead.ts'
import type { ReplayPosition } from '../record/request-replayer.ts'
import { encodeLine } from '../record/values.ts'
import type { GivingClock } from './clock.ts'
import type { Fill } from './recording.ts'
import { visibleAfter, visibleNow } from './visible.ts'

export interface ResponseQueue {
  give(response: PersistenceResponse): void
  /** @throws {DiffersError} if the response does not arrive */
  take(name: ResponseName): Promise<PersistenceResponse>
}

export class DiffersError extends Error {
  override name = 'DiffersError'
}

/** The persistence thread responds within a persist pass, even on a busy machine. */
const RESPONSE_MS = 60_000
const REPORT_MS = 200

/**
 * Queues responses of the persistence thread until their line comes. The writer's requests bound
 * the queue.
 */
export function createResponseQueue(): ResponseQueue {
  const given: PersistenceResponse[] = []
  let wake = () => {}
  const keyOf = (name: ResponseName) => encodeLine(name)
  return {
    give(response) {
      given.push(response)
      wake()
    },
    async take(name) {
      const key = keyOf(name)
      const until = performance.now() + RESPONSE_MS
      for (;;) {
        const at = given.findIndex((response) => keyOf(nameOf(response)) === key)
        if (at >= 0) return given.splice(at, 1)[0]!
        const leftMs = until - performance.now()
        if (leftMs <= 0)
          throw new DiffersError(
            `the persistence thread did not send the recorded response ${key} within ${RESPONSE_MS / 1_000} s`,
          )
        await new Promise<void>((resolve) => {
          wake = resolve
          setTimeout(resolve, leftMs).unref()
        })
      }
    },
  }
}

export type Replayed = {
  readonly writer: ChainWriter
  readonly reader: ChainReader
  readonly clock: GivingClock
  readonly responseQueue: ResponseQueue
  readonly lines: Iterable<Line>
  /** Recorded client requests; undefined if there are none. */
  readonly requests: RequestLookahead | undefined
  readonly data: ReplayData
  readonly post: (fill: Fill) => void
  readonly carryOut: (effects: readonly WriterEffect[]) => void
  readonly notify: (status: ReplayStatus) => void
  /** Resolves when the client requests have been repeated. */
  readonly request: (lines: readonly ReplayLine[], at: ReplayPosition) => Promise<void>
  readonly isStopped: () => boolean
}

/** @throws {Error} after a bug of the writer */
export async function replay(parts: Replayed): Promise<ReplayEnd> {
  const { data, clock, requests, notify } = parts
  const status = {
    frames: 0,
    blocks: 0,
    values: 0,
    events: 0,
    held: 0,
    shown: undefined as VisibleHeads | undefined,
  }
  const end = (differs?: string): ReplayEnd => ({
    ...status,
    differs,
    isStopped: parts.isStopped(),
  })
  const started = performance.now()
  let [reportedAt, first] = [started, undefined as number | undefined]
  for (const line of parts.lines) {
    if (parts.isStopped()) return end()
    if (line.type === 'request' || line.type === 'left') continue
    if (requests !== undefined && 'published' in line)
      await requestAll(requests.upTo(parts.reader.newestSnapshot(), line.wall), parts)
    if ('wall' in line) {
      clock.set(line)
      first ??= line.wall
      if (data.speed !== undefined)
        await pause(Math.max(0, (line.wall - first) / data.speed - (performance.now() - started)))
    }
    try {
      await applyLine(line, parts, status)
    } catch (error) {
      if (error instanceof DiffersError) return end(error.message)
      throw error
    }
    // The replay ends here, because repeated requests might need values of later lines.
    if (isReached(status.shown, data.until)) return end()
    if (performance.now() - reportedAt < REPORT_MS) continue
    reportedAt = performance.now()
    notify(status)
    // The main thread may send a stop.
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (requests !== undefined) await requestAll(requests.remaining(), parts)
  return end()
}

/** Requests of one snapshot go to the main thread in groups of this size. */
const REQUESTED_TOGETHER = 256

async function requestAll(
  lines: Iterable<ReplayLine>,
  { reader, request, isStopped }: Replayed,
): Promise<void> {
  let at: ReplayPosition | undefined
  let together: ReplayLine[] = []
  for (const line of lines) {
    at ??= { snapshot: reader.newestSnapshot(), shown: visibleNow(reader) }
    together.push(line)
    if (together.length < REQUESTED_TOGETHER) continue
    await request(together, at)
    together = []
    if (isStopped()) return
  }
  if (at !== undefined && together.length > 0) await request(together, at)
}

const isReached = (
  shown: VisibleHeads | undefined,
  until: FlashblockPosition | undefined,
): boolean =>
  shown !== undefined &&
  until !== undefined &&
  (shown.pending > until.number || (shown.pending === until.number && shown.index >= until.index))

type Counted = { -readonly [K in keyof ReplayStatus]: ReplayStatus[K] }

type WriterLine = Exclude<Line, { readonly type: 'request' | 'left' }>

async function applyLine(line: WriterLine, parts: Replayed, status: Counted): Promise<void> {
  const { writer, reader, responseQueue } = parts
  if (line.type === 'open') return
  if (line.type === 'expect') {
    for (const one of line.transactions) writer.expect(one)
    return
  }
  if (line.type === 'fill') {
    const request = ++status.values
    parts.post({ type: 'fill', request, block: line.block, rows: line.rows })
    await responseQueue.take({ type: 'filled', of: request })
    return
  }
  const event = await eventOf(line, responseQueue)
  status.events++
  if (event.type === 'packet') status.frames++
  if (event.type === 'sealed') status.blocks++
  const effects = await writer.apply(event)
  parts.carryOut(effects)
  const shown = visibleAfter(reader, effects)
  assertSame(shown, line.shows)
  if (shown === undefined) return
  status.shown = shown
  status.held++
}

async function eventOf(
  line: Line & { readonly type: 'frame' | 'answer' | 'event' },
  responseQueue: ResponseQueue,
): Promise<WriterEvent> {
  if (line.type === 'event') return line.event
  if (line.type === 'answer')
    return { type: 'answer', response: await responseQueue.take(line.answer) }
  const { feed, receivedAtMs, raw } = line
  const decoded = decodePacket(raw)
  if (!('message' in decoded))
    throw new DiffersError(
      `the node that was recorded accepted a frame of feed ${feed}, and the replay refuses it`,
    )
  const packet = { feed, receivedAtMs, raw, message: decoded.message, digest: checksum(raw) }
  return { type: 'packet', packet }
}

/** @throws {DiffersError} */
function assertSame(ours: VisibleHeads | undefined, theirs: VisibleHeads | undefined): void {
  // Nothing can be read while blocks are unwound, and the duration differs between runs.
  if (ours === undefined || theirs === undefined) return
  const [now, then] = [encodeLine(ours), encodeLine(theirs)]
  if (now === then) return
  throw new DiffersError(
    `block ${theirs.pending}, flashblock ${theirs.index}: the recording has ${describe(theirs)}, the replay has ${describe(ours)}`,
  )
}
const describe = ({
  record,
  canonical,
  canonicalHash,
  pending,
  index,
  hash,
}: VisibleHeads): string =>
  `snapshot ${record}, canonical ${canonical} ${bytesToHex(canonicalHash)}, pending ${pending}.${index} ${bytesToHex(hash)}`
