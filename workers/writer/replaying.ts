/** Gives the writer what a record has, in its order and by its clock, and holds what it shows to what was shown. */
import { setTimeout as pause } from 'node:timers/promises'
import type { ChainReader } from '../../engine/chain/types.ts'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { WriterEffect, WriterEvent } from '../../engine/sources/writer/types.ts'
import type { ChainWriter } from '../../engine/sources/writer/writer.ts'
import type { KeeperAnswer } from '../../engine/storage/types.ts'
import type { AskedLine, RequestsAhead } from '../record/ahead.ts'
import type { AskedAt } from '../record/asking.ts'
import {
  type AnswerName,
  type Line,
  nameOf,
  type Place,
  type ReplayData,
  type ReplayEnd,
  type ReplayStatus,
  type Shown,
} from '../record/lines.ts'
import { encodeLine } from '../record/values.ts'
import type { GivingClock } from './clock.ts'
import type { Fill } from './recording.ts'
import { shownAfter, shownNow } from './shown.ts'

export interface Answers {
  give(answer: KeeperAnswer): void
  /** @throws {DiffersError} where it does not come */
  take(name: AnswerName): Promise<KeeperAnswer>
}

export class DiffersError extends Error {
  override name = 'DiffersError'
}

/** The keeper answers within a fold, on a machine that is busy. */
const ANSWER_MS = 60_000
const TELL_MS = 200

/** What the keeper has said, until it is its turn. Bounded by what the writer asks. */
export function createAnswers(): Answers {
  const given: KeeperAnswer[] = []
  let wake = () => {}
  const keyOf = (name: AnswerName) => encodeLine(name)
  return {
    give(answer) {
      given.push(answer)
      wake()
    },
    async take(name) {
      const key = keyOf(name)
      const until = performance.now() + ANSWER_MS
      for (;;) {
        const at = given.findIndex((answer) => keyOf(nameOf(answer)) === key)
        if (at >= 0) return given.splice(at, 1)[0]!
        const leftMs = until - performance.now()
        if (leftMs <= 0)
          throw new DiffersError(`the keeper does not answer as it did: ${key} is missing`)
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
  readonly answers: Answers
  readonly lines: Iterable<Line>
  /** Of clients; undefined: the record has none. */
  readonly requests: RequestsAhead | undefined
  readonly data: ReplayData
  readonly post: (fill: Fill) => void
  readonly carryOut: (effects: readonly WriterEffect[]) => void
  readonly tell: (status: ReplayStatus) => void
  /** Resolves when clients' requests have been asked again. */
  readonly ask: (lines: readonly AskedLine[], at: AskedAt) => Promise<void>
  readonly isStopped: () => boolean
}

/** @throws what a bug of the writer throws */
export async function replay(parts: Replayed): Promise<ReplayEnd> {
  const { data, clock, requests, tell } = parts
  const status = {
    frames: 0,
    blocks: 0,
    values: 0,
    events: 0,
    held: 0,
    shown: undefined as Shown | undefined,
  }
  const end = (differs?: string): ReplayEnd => ({
    ...status,
    ...{ differs, isStopped: parts.isStopped() },
  })
  const started = performance.now()
  let [toldAt, first] = [started, undefined as number | undefined]
  for (const line of parts.lines) {
    if (parts.isStopped()) return end()
    if (line.type === 'request' || line.type === 'left') continue
    if (requests !== undefined && 'published' in line)
      await askAll(requests.upTo(parts.reader.newestRecord(), line.wall), parts)
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
    // What it was asked there may need values that come later.
    if (isReached(status.shown, data.until)) return end()
    if (performance.now() - toldAt < TELL_MS) continue
    toldAt = performance.now()
    tell(status)
    // Main may say that it is enough.
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (requests !== undefined) await askAll(requests.rest(), parts)
  return end()
}

/** Of a moment with many requests, so many at a time go to the main thread. */
const ASKED_TOGETHER = 256

async function askAll(
  lines: Iterable<AskedLine>,
  { reader, ask, isStopped }: Replayed,
): Promise<void> {
  let at: AskedAt | undefined
  let together: AskedLine[] = []
  for (const line of lines) {
    at ??= { record: reader.newestRecord(), shown: shownNow(reader) }
    together.push(line)
    if (together.length < ASKED_TOGETHER) continue
    await ask(together, at)
    together = []
    if (isStopped()) return
  }
  if (at !== undefined && together.length > 0) await ask(together, at)
}

const isReached = (shown: Shown | undefined, until: Place | undefined): boolean =>
  shown !== undefined &&
  until !== undefined &&
  (shown.pending > until.number || (shown.pending === until.number && shown.index >= until.index))

type Counted = { -readonly [K in keyof ReplayStatus]: ReplayStatus[K] }

type WriterLine = Exclude<Line, { readonly type: 'request' | 'left' }>

async function applyLine(line: WriterLine, parts: Replayed, status: Counted): Promise<void> {
  const { writer, reader, answers } = parts
  if (line.type === 'open') return
  if (line.type === 'expect') {
    for (const one of line.transactions) writer.expect(one)
    return
  }
  if (line.type === 'fill') {
    const request = ++status.values
    parts.post({ type: 'fill', request, block: line.block, rows: line.rows })
    await answers.take({ type: 'filled', of: request })
    return
  }
  const event = await eventOf(line, answers)
  status.events++
  if (event.type === 'packet') status.frames++
  if (event.type === 'sealed') status.blocks++
  const effects = await writer.apply(event)
  parts.carryOut(effects)
  const shown = shownAfter(reader, effects)
  hold(shown, line.shows)
  if (shown === undefined) return
  status.shown = shown
  status.held++
}

async function eventOf(
  line: Line & { readonly type: 'frame' | 'answer' | 'event' },
  answers: Answers,
): Promise<WriterEvent> {
  if (line.type === 'event') return line.event
  if (line.type === 'answer') return { type: 'answer', answer: await answers.take(line.answer) }
  const { feed, receivedAtMs, raw } = line
  const decoded = decodePacket(raw)
  if (!('message' in decoded))
    throw new DiffersError(`a frame of feed ${feed} was taken and is refused now`)
  const packet = { feed, receivedAtMs, raw, message: decoded.message, digest: checksum(raw) }
  return { type: 'packet', packet }
}

/** @throws {DiffersError} */
function hold(ours: Shown | undefined, theirs: Shown | undefined): void {
  // While blocks are taken back nothing can be read, for a moment that is another one each time.
  if (ours === undefined || theirs === undefined) return
  const [now, then] = [encodeLine(ours), encodeLine(theirs)]
  if (now === then) return
  throw new DiffersError(
    `block ${theirs.pending}, flashblock ${theirs.index}: ${told(theirs)} was shown, and now ${told(ours)}`,
  )
}
const told = ({ record, canonical, canonicalHash, pending, index, hash }: Shown): string =>
  `record ${record}, canonical ${canonical} ${bytesToHex(canonicalHash)}, pending ${pending}.${index} ${bytesToHex(hash)}`
