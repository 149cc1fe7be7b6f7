/**
 * This node as a source of new replicas: limits the copies and their bandwidth, and runs the
 * reading thread.
 */
import type { Database } from '../../engine/storage/database/types.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import type { NodeConfig } from '../config/serving-options.ts'
import type { Report } from '../observe/reporter.ts'
import { createQuestions } from '../thread/questions.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { FromReader, Read, ReaderData, ToReader } from './messages.ts'

export type BootstrapResponse = {
  readonly status: number
  readonly wrong?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly bytes?: Uint8Array<ArrayBuffer>
}

export interface BootstrapService {
  /** @param url URL of the request; `by` in its query names the copy */
  respond(url: string): Promise<BootstrapResponse>
  /** Counts for metrics: current copies, responses, sent bytes and refused requests. */
  stats(): Readonly<Record<string, number>>
  close(withinMs?: number): Promise<void>
}

export type ServiceOptions = {
  readonly config: Pick<NodeConfig, 'historyBlocks'>
  readonly limits: Pick<
    Limits,
    'bootstraps' | 'bootstrapIdleMs' | 'bootstrapChunkBytes' | 'bootstrapBytesPerSecond'
  >
  readonly database: Pick<Database, 'share' | 'threadEnded'>
  readonly path: string
  readonly report: Report
  /** Monotonic milliseconds. */
  readonly now: () => number
}

const TIMEOUT_MS = 30_000
const STOP_MS = 3_000

type Copying = { requestedAt: number; isRequesting: boolean }

export function openBootstrapService(options: ServiceOptions): BootstrapService {
  const { limits, now } = options
  const copies = new Map<string, Copying>()
  const reading = openReading(options)
  const counts = { answers: 0, bytes: 0, refused: 0 }
  /** Time at which the bandwidth allows the next response. */
  let freeAt = 0
  const refused = (status: number, wrong: string, seconds = 0): BootstrapResponse => {
    counts.refused++
    return { status, wrong, ...(seconds > 0 && { headers: { 'retry-after': String(seconds) } }) }
  }
  /** Returns the copy of this name; undefined if the maximum number of copies is reached. */
  function copyOf(name: string): Copying | undefined {
    for (const [other, { requestedAt, isRequesting }] of copies)
      if (!isRequesting && now() - requestedAt > limits.bootstrapIdleMs) copies.delete(other)
    const known = copies.get(name)
    if (known !== undefined || copies.size >= limits.bootstraps) return known
    const copying = { requestedAt: now(), isRequesting: false }
    copies.set(name, copying)
    return copying
  }
  async function bandwidthDue(): Promise<void> {
    const waitMs = freeAt - now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
  return {
    async respond(url) {
      const at = url.indexOf('?')
      const query = new URLSearchParams(at === -1 ? '' : url.slice(at + 1))
      const name = query.get('by') ?? ''
      if (!/^[0-9a-f]{32}$/.test(name)) return refused(400, 'by: expected 32 hex digits')
      const copying = copyOf(name)
      if (copying === undefined)
        return refused(
          503,
          `${copies.size} copies are in progress (--limit-bootstraps): retry in 5 s`,
          5,
        )
      if (copying.isRequesting)
        return refused(429, 'this copy already has an unanswered request', 1)
      copying.isRequesting = true
      try {
        await bandwidthDue()
        const read = await reading.request(query.toString())
        if (read === undefined) return refused(503, 'the state cannot be read now: retry in 1 s', 1)
        if ('wrong' in read) return refused(400, read.wrong)
        counts.answers++
        counts.bytes += read.bytes.length
        const costMs = (1_000 * rawBytes(read.bytes)) / limits.bootstrapBytesPerSecond
        freeAt = Math.max(freeAt, now()) + costMs
        return { status: 200, bytes: read.bytes }
      } finally {
        copying.isRequesting = false
        copying.requestedAt = now()
      }
    },
    stats: () => ({ ...counts, copies: copies.size }),
    close: reading.close,
  }
}

/** Bytes before compression, as the head of a response says (chunk.ts). */
const rawBytes = (bytes: Uint8Array<ArrayBuffer>): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(12)

/** The thread runs while a replica copies. */
function openReading({ config, limits, database, path, report }: ServiceOptions) {
  const questions = createQuestions<Read>(TIMEOUT_MS)
  let thread: Thread<ToReader> | undefined
  let idle: NodeJS.Timeout | undefined
  const stop = async (withinMs = STOP_MS) => {
    clearTimeout(idle)
    const ended = thread
    thread = undefined
    await ended?.stop({ type: 'stop' }, withinMs)
  }
  const start = (): Thread<ToReader> => {
    const data: ReaderData = {
      database: database.share(),
      path,
      chunkBytes: limits.bootstrapChunkBytes,
      keepsDiffs: config.historyBlocks !== 'all',
    }
    const own = startThread<ToReader, FromReader>({
      name: 'bootstrap',
      file: new URL('./reader.ts', import.meta.url),
      data,
      onMessage: (message) => {
        if (message.type === 'answer') questions.respond(message.request, message.response)
      },
      onLost(reason) {
        report('bootstrap_failed', { reason })
        if (thread === own) thread = undefined
        questions.close()
      },
      onEnded: (ended) => database.threadEnded(ended),
    })
    return own
  }
  return {
    request(query: string): Promise<Read | undefined> {
      clearTimeout(idle)
      thread ??= start()
      const requested = thread
      return questions
        .request((request) => requested.post({ type: 'ask', request, query }))
        .finally(() => {
          clearTimeout(idle)
          idle = setTimeout(() => void stop(), limits.bootstrapIdleMs).unref()
        })
    },
    close: stop,
  }
}
