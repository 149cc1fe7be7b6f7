/** This node as a source of new replicas: who copies it, how much they get in a second, and the thread that reads for them. */
import type { Database } from '../../engine/storage/database/types.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import type { NodeConfig } from '../config/serving.ts'
import type { Report } from '../observe/reporter.ts'
import { createQuestions } from '../thread/questions.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { FromReader, Read, ReaderData, ToReader } from './messages.ts'

export type BootstrapAnswer = {
  readonly status: number
  readonly wrong?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly bytes?: Uint8Array<ArrayBuffer>
}

export interface BootstrapService {
  /** @param url of the request: `by` in its query says which copy it is */
  answer(url: string): Promise<BootstrapAnswer>
  /** Counts for metrics: copies at the moment, answers, bytes that were sent, questions that were refused. */
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
  /** Of the data directory. */
  readonly path: string
  readonly report: Report
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** For one answer. */
const PATIENCE_MS = 30_000
const STOP_MS = 3_000

type Copying = { askedAt: number; isAsking: boolean }

export function openBootstrapService(options: ServiceOptions): BootstrapService {
  const { limits, now } = options
  const copies = new Map<string, Copying>()
  const reading = openReading(options)
  const counts = { answers: 0, bytes: 0, refused: 0 }
  /** When all that was sent is paid for. */
  let freeAt = 0
  const refused = (status: number, wrong: string, seconds = 0): BootstrapAnswer => {
    counts.refused++
    return { status, wrong, ...(seconds > 0 && { headers: { 'retry-after': String(seconds) } }) }
  }
  /** Of this name; undefined: there are as many as may be. */
  function copyOf(name: string): Copying | undefined {
    for (const [other, { askedAt, isAsking }] of copies)
      if (!isAsking && now() - askedAt > limits.bootstrapIdleMs) copies.delete(other)
    const known = copies.get(name)
    if (known !== undefined || copies.size >= limits.bootstraps) return known
    const copying = { askedAt: now(), isAsking: false }
    copies.set(name, copying)
    return copying
  }
  async function paid(): Promise<void> {
    const waitMs = freeAt - now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
  return {
    async answer(url) {
      const at = url.indexOf('?')
      const query = new URLSearchParams(at === -1 ? '' : url.slice(at + 1))
      const name = query.get('by') ?? ''
      if (!/^[0-9a-f]{32}$/.test(name)) return refused(400, 'by: expected 32 hex digits')
      const copying = copyOf(name)
      if (copying === undefined)
        return refused(503, `${copies.size} copies are under way: --limit-bootstraps`, 5)
      if (copying.isAsking) return refused(429, 'this copy has a question open', 1)
      copying.isAsking = true
      try {
        await paid()
        const read = await reading.ask(query.toString())
        if (read === undefined) return refused(503, 'the state cannot be read at the moment', 1)
        if ('wrong' in read) return refused(400, read.wrong)
        counts.answers++
        counts.bytes += read.bytes.length
        const costMs = (1_000 * rawBytes(read.bytes)) / limits.bootstrapBytesPerSecond
        freeAt = Math.max(freeAt, now()) + costMs
        return { status: 200, bytes: read.bytes }
      } finally {
        copying.isAsking = false
        copying.askedAt = now()
      }
    },
    stats: () => ({ ...counts, copies: copies.size }),
    close: reading.close,
  }
}

/** As the head of an answer says (chunk.ts). */
const rawBytes = (bytes: Uint8Array<ArrayBuffer>): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(12)

/** The thread is there while somebody copies. */
function openReading({ config, limits, database, path, report }: ServiceOptions) {
  const questions = createQuestions<Read>(PATIENCE_MS)
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
      ...{ database: database.share(), path, chunkBytes: limits.bootstrapChunkBytes },
      keepsDiffs: config.historyBlocks !== 'all',
    }
    const own = startThread<ToReader, FromReader>({
      ...{ name: 'bootstrap', file: new URL('./reader.ts', import.meta.url), data },
      onMessage: (message) => {
        if (message.type === 'answer') questions.answer(message.request, message.answer)
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
    ask(query: string): Promise<Read | undefined> {
      clearTimeout(idle)
      thread ??= start()
      const asked = thread
      return questions
        .ask((request) => asked.post({ type: 'ask', request, query }))
        .finally(() => {
          clearTimeout(idle)
          idle = setTimeout(() => void stop(), limits.bootstrapIdleMs).unref()
        })
    },
    close: stop,
  }
}
