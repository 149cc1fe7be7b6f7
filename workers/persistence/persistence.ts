/**
 * The persistence thread, the only one that writes the database: handles requests of the writer and
 * the sequencer.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import type { LedgerLimits } from '../../engine/storage/ledger-types.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
import {
  createPersistence,
  type Persistence,
} from '../../engine/storage/persistence/persistence.ts'
import type { PersistenceResponse } from '../../engine/storage/types.ts'
import { persistenceWords } from '../../engine/views/arena.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type {
  FromPersistence,
  PersistenceOpened,
  SharedNode,
  ToPersistence,
} from '../thread/messages.ts'
import { type PackedRequest, unpackRequest } from './request.ts'

/** The writer's port gets a `PersistenceOpened` as its first message. */
export type PersistenceData = Pick<SharedNode, 'database' | 'views'> & {
  readonly writer: MessagePort
  /**
   * Port to the source of blocks, which requests roots or brings state; undefined if there is none.
   */
  readonly sequencer: MessagePort | undefined
  readonly foldDepth?: number
  readonly undoWindow?: number
  readonly historyBlocks?: number
  readonly trieCacheBytes?: number
  readonly lazyCacheBytes?: number
  readonly ledger?: LedgerLimits
}

const BEAT_MS = 1_000
type Stamp = { wallMs: number | undefined }

if (parentPort !== null) run(parentPort, workerData as PersistenceData)

function run(main: MessagePort, data: PersistenceData): void {
  const notify = (message: FromPersistence) => main.postMessage(message)
  const { writer, sequencer } = data
  const { database: shared, views, ...limits } = data
  // A recorded or replayed writer determines the time of its requests.
  const stamp: Stamp = { wallMs: undefined }
  const persistence = attempt(notify, () =>
    createPersistence({
      ...limits,
      database: attachDatabase(shared, { isWriter: true }),
      words: persistenceWords(views),
      now: () => performance.now(),
      wallMs: () => stamp.wallMs ?? Date.now(),
    }),
  )
  // The main thread was notified, and ends the process.
  if (persistence === undefined) return
  const { opened } = persistence
  writer.postMessage({ type: 'opened', opened } satisfies PersistenceOpened)
  notify({
    type: 'ready',
    foldedNumber: opened.persistedHead.number,
    durableNumber: opened.durableHead.number,
    dropped: opened.dropped.length,
  })
  saveCompiledLater()
  const stop = serve(persistence, { ...data, stamp }, notify)
  main.on('message', (message: ToPersistence) => {
    if (message.type === 'taken') return persistence.ledger.taken(message.ms)
    stop()
    notify({ type: 'stopped' })
    close([main, writer, sequencer])
  })
}

/**
 * Handles requests until the returned function is called, which finishes due work and makes it
 * durable.
 */
function serve(
  persistence: Persistence,
  data: PersistenceData & { readonly stamp: Stamp },
  notify: (message: FromPersistence) => void,
): () => void {
  const { writer, sequencer, stamp } = data
  let slice: NodeJS.Immediate | undefined
  let hasFailed = false
  /**
   * Ports by request, for responses that return to the port of their request; one port of a node
   * sends such requests.
   */
  const requesters = new Map<number, MessagePort>()
  const send = (responses: readonly PersistenceResponse[]) => {
    for (const response of responses) {
      if (response.type === 'failed' && !hasFailed) {
        hasFailed = true
        notify({ type: 'failed', message: response.message })
      }
      const isOfRequester = response.type === 'preview' || response.type === 'filled'
      const port = isOfRequester ? requesters.get(response.request) : writer
      if (isOfRequester) requesters.delete(response.request)
      port?.postMessage(response)
    }
  }
  // Messages are handled after each slice, so an append never waits for a full persist pass.
  const schedule = () => {
    if (slice !== undefined || !persistence.hasWork()) return
    slice = setImmediate(() => {
      slice = undefined
      attempt(notify, () => send(persistence.step()))
      schedule()
    })
  }
  for (const port of [writer, sequencer])
    port?.on('message', (packed: PackedRequest) => {
      stamp.wallMs = packed.wallMs
      const { request } = packed
      if (request.type === 'preview' || request.type === 'fill')
        requesters.set(request.request, port)
      attempt(notify, () => send(persistence.handle(unpackRequest(packed))))
      schedule()
    })
  let isBeating = false
  async function beatOnce(): Promise<void> {
    if (isBeating) return
    isBeating = true
    try {
      send(await persistence.sync())
      const stats = persistence.stats()
      const logBytes = await persistence.logBytes()
      notify({ type: 'stats', stats: { ...stats, logBytes }, ledger: persistence.ledger.stats() })
    } catch (error) {
      attempt(notify, () => {
        throw error
      })
    } finally {
      isBeating = false
    }
  }
  const beat = setInterval(() => void beatOnce(), BEAT_MS)
  schedule()
  return () => {
    clearInterval(beat)
    clearImmediate(slice)
    attempt(notify, () => send(persistence.flush()))
  }
}

/** Reports a failure to the main thread, which ends the process; committed data stays. */
function attempt<Result>(
  notify: (message: FromPersistence) => void,
  work: () => Result,
): Result | undefined {
  try {
    return work()
  } catch (error) {
    const failure =
      storageFailure(error) ?? `the persistence thread failed: ${(error as Error).message}`
    notify({ type: 'failed', message: failure })
    return undefined
  }
}

function close(ports: readonly (MessagePort | undefined)[]): void {
  for (const port of ports) port?.close()
}
