/**
 * Records all input of the writer in order: events with the clock's readings, and fetched values.
 * Fetched values reach the database through this module, so that a replay has them at the same
 * time.
 */
import type { ChainReader } from '../../engine/chain/types.ts'
import type { SignedEnvelope } from '../../engine/primitives/transaction.ts'
import type { WriterEffect, WriterEvent } from '../../engine/sources/writer/types.ts'
import type { ChainWriter } from '../../engine/sources/writer/writer.ts'
import type { PersistenceRequest, PersistenceResponse } from '../../engine/storage/types.ts'
import { type Line, nameOf } from '../record/lines.ts'
import { createPieces } from '../record/pieces.ts'
import { encodeLine } from '../record/values.ts'
import type { TakingClock } from './clock.ts'
import { isPublished, visibleAfter } from './visible.ts'

export type Fill = PersistenceRequest & { readonly type: 'fill' }
type Filled = PersistenceResponse & { readonly type: 'filled' }

export interface Recording {
  apply(event: WriterEvent): Promise<readonly WriterEffect[]>
  expect(transactions: readonly SignedEnvelope[]): void
  /** Queues a fill, which is done before the next event. */
  fill(request: Fill): void
  /** Returns true if it was the response to a fill. */
  filled(response: PersistenceResponse): boolean
  /**
   * Handles input that came between two events. Later input waits, because calls on a lazy node
   * never stop and the chain would starve.
   */
  settle(): Promise<void>
  /** True if more input has arrived. */
  readonly isWaiting: boolean
  /** Sends all lines that wait. */
  flush(): void
}

export function createRecording(parts: {
  readonly writer: ChainWriter
  readonly reader: ChainReader
  readonly clock: TakingClock
  readonly post: (request: Fill, wallMs: number) => void
  readonly notifyFilled: (response: Filled) => void
  readonly emitLines: (lines: Uint8Array<ArrayBuffer>) => void
}): Recording {
  const { writer, reader, clock } = parts
  const fills: Fill[] = []
  const expected: (readonly SignedEnvelope[])[] = []
  const requested = new Map<number, (response: Filled) => void>()
  const pieces = createPieces(parts.emitLines)

  /**
   * Requests are sent together, because the persistence thread handles them in order and the events
   * need not wait for each.
   */
  async function fillAll(requests: readonly Fill[]): Promise<void> {
    clock.start()
    const responded = requests.map(({ request }) => {
      const { promise, resolve } = Promise.withResolvers<Filled>()
      requested.set(request, resolve)
      return promise
    })
    for (const request of requests) parts.post(request, clock.wallMs())
    const responses = await Promise.all(responded)
    const taken = clock.end()
    for (const { block, rows } of requests) pieces.add({ type: 'fill', ...taken, block, rows })
    for (const response of responses) parts.notifyFilled(response)
  }
  return {
    async apply(event) {
      clock.start()
      const effects = await writer.apply(event)
      const taken = clock.end()
      const published = isPublished(effects) ? reader.newestSnapshot() : undefined
      const after = { published, shows: visibleAfter(reader, effects) }
      pieces.add({ ...lineOf(event), ...taken, ...after } as Line)
      return effects
    },
    expect: (transactions) => void expected.push(transactions),
    fill: (request) => void fills.push(request),
    filled(response) {
      if (response.type !== 'filled') return false
      requested.get(response.request)?.(response)
      return requested.delete(response.request)
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
  if (event.type === 'answer') return { type: 'answer', answer: nameOf(event.response) } as const
  if (event.type !== 'packet') return { type: 'event', event } as const
  const { feed, receivedAtMs, raw } = event.packet
  return { type: 'frame', feed, receivedAtMs, raw } as const
}

/** Makes the writer's first line. */
export const openLine = (
  line: Omit<Line & { readonly type: 'open' }, 'type'>,
): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`${encodeLine({ type: 'open', ...line })}\n`)
