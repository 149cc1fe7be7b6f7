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
import { createPieces } from '../record/pieces.ts'
import { encodeLine } from '../record/values.ts'
import type { TakingClock } from './clock.ts'
import { isPublished, shownAfter } from './shown.ts'

export type Fill = KeeperRequest & { readonly type: 'fill' }
type Filled = KeeperAnswer & { readonly type: 'filled' }

export interface Recording {
  apply(event: WriterEvent): Promise<readonly WriterEffect[]>
  expect(transactions: readonly SignedEnvelope[]): void
  /** Is done before the next event. */
  fill(request: Fill): void
  /** Whether it was an answer to a fill. */
  filled(answer: KeeperAnswer): boolean
  /** What has come between two events. Not what comes meanwhile: callers of a lazy node never stop, and the chain has its turn. */
  settle(): Promise<void>
  /** Something has come since. */
  readonly isWaiting: boolean
  /** Nothing waits to be told any more. */
  flush(): void
}

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

  /** All at once: the keeper takes them in their order, and events do not wait for each of them. */
  async function fillAll(requests: readonly Fill[]): Promise<void> {
    clock.begin()
    const answered = requests.map(({ request }) => {
      const { promise, resolve } = Promise.withResolvers<Filled>()
      asked.set(request, resolve)
      return promise
    })
    for (const request of requests) parts.post(request, clock.wallMs())
    const answers = await Promise.all(answered)
    const taken = clock.end()
    for (const { block, rows } of requests) pieces.add({ type: 'fill', ...taken, block, rows })
    for (const answer of answers) parts.tellFilled(answer)
  }
  return {
    async apply(event) {
      clock.begin()
      const effects = await writer.apply(event)
      const taken = clock.end()
      const published = isPublished(effects) ? reader.newestRecord() : undefined
      const after = { published, shows: shownAfter(reader, effects) }
      pieces.add({ ...lineOf(event), ...taken, ...after } as Line)
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
      if (fills.length > 0) await fillAll(fills.splice(0))
      for (const transactions of expected.splice(0)) {
        for (const one of transactions) writer.expect(one)
        pieces.add({ type: 'expect', transactions })
      }
    },
    get isWaiting() {
      return fills.length + expected.length > 0
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

/** The first line of the writer's. */
export const openLine = (
  line: Omit<Line & { readonly type: 'open' }, 'type'>,
): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`${encodeLine({ type: 'open', ...line })}\n`)
