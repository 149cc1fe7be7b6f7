/**
 * Takes down what the writer takes, in its order: events with what the clock said meanwhile, and what others gave to the database. The last
 * goes through here, so that a replay has the same values at the same moment.
 */
import type { ChainReader } from '../../engine/chain/types.ts'
import type { SignedEnvelope } from '../../engine/primitives/transaction.ts'
import type { WriterEffect, WriterEvent } from '../../engine/sources/writer/types.ts'
import type { ChainWriter } from '../../engine/sources/writer/writer.ts'
import type { KeeperAnswer, KeeperRequest } from '../../engine/storage/types.ts'
import { type Line, nameOf } from '../record/lines.ts'
import { encodeLine } from '../record/values.ts'
import type { TakingClock } from './clock.ts'
import { shownAfter } from './shown.ts'

export type Fill = KeeperRequest & { readonly type: 'fill' }
type Filled = KeeperAnswer & { readonly type: 'filled' }

export interface Recording {
  apply(event: WriterEvent): Promise<readonly WriterEffect[]>
  expect(transactions: readonly SignedEnvelope[]): void
  /** Is done before the next event. */
  fill(request: Fill): void
  /** Whether it was an answer to a fill. */
  filled(answer: KeeperAnswer): boolean
  /** What has come between two events. */
  settle(): Promise<void>
  /** Nothing waits to be told any more. */
  flush(): void
}

/** Lines that go together: more in one piece compress better, fewer are lost with a kill. */
const PIECE_BYTES = 256 * 1_024
const PIECE_MS = 250

export function createRecording(parts: {
  readonly writer: ChainWriter
  readonly reader: ChainReader
  readonly clock: TakingClock
  /** To the keeper. */
  readonly post: (request: Fill, wallMs: number) => void
  /** To who has asked for it. */
  readonly tellFilled: (answer: Filled) => void
  readonly tellLines: (lines: Uint8Array<ArrayBuffer>) => void
}): Recording {
  const { writer, reader, clock } = parts
  const fills: Fill[] = []
  const expected: (readonly SignedEnvelope[])[] = []
  const asked = new Map<number, (answer: Filled) => void>()
  const pieces = createPieces(parts.tellLines)

  async function fill(request: Fill): Promise<void> {
    clock.begin()
    const answered = new Promise<Filled>((resolve) => asked.set(request.request, resolve))
    parts.post(request, clock.wallMs())
    const answer = await answered
    const { block, rows } = request
    pieces.add({ type: 'fill', ...clock.end(), block, rows })
    parts.tellFilled(answer)
  }
  return {
    async apply(event) {
      clock.begin()
      const effects = await writer.apply(event)
      const taken = clock.end()
      pieces.add({ ...lineOf(event), ...taken, shows: shownAfter(reader, effects) } as Line)
      return effects
    },
    expect: (transactions) => void expected.push(transactions),
    fill: (request) => void fills.push(request),
    filled(answer) {
      if (answer.type !== 'filled') return false
      asked.get(answer.request)?.(answer)
      return asked.delete(answer.request)
    },
    async settle() {
      for (let next = fills.shift(); next !== undefined; next = fills.shift()) await fill(next)
      for (const transactions of expected.splice(0)) {
        for (const one of transactions) writer.expect(one)
        pieces.add({ type: 'expect', transactions })
      }
    },
    flush: pieces.flush,
  }
}

function lineOf(event: WriterEvent) {
  if (event.type === 'answer') return { type: 'answer', answer: nameOf(event.answer) } as const
  if (event.type !== 'packet') return { type: 'event', event } as const
  const { feed, receivedAtMs, raw } = event.packet
  return { type: 'frame', feed, receivedAtMs, raw } as const
}

function createPieces(tell: (lines: Uint8Array<ArrayBuffer>) => void) {
  let texts: string[] = []
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (texts.length > 0) tell(new TextEncoder().encode(texts.join('')))
    texts = []
    bytes = 0
  }
  return {
    flush,
    add(line: Line) {
      const text = `${encodeLine(line)}\n`
      texts.push(text)
      bytes += text.length
      if (bytes >= PIECE_BYTES) flush()
      else timer ??= setTimeout(flush, PIECE_MS)
    },
  }
}

/** The first line of the writer's. */
export const openLine = (
  line: Omit<Line & { readonly type: 'open' }, 'type'>,
): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`${encodeLine({ type: 'open', ...line })}\n`)
