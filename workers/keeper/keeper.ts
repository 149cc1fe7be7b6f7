/** The keeper's thread: the only one that writes the database. Takes the writer's requests and the sequencer's questions. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { storageFailure } from '../../engine/storage/keeper/failure.ts'
import { createKeeper, type Keeper } from '../../engine/storage/keeper/keeper.ts'
import type { LedgerLimits } from '../../engine/storage/ledger-types.ts'
import type { KeeperAnswer } from '../../engine/storage/types.ts'
import { keeperWords } from '../../engine/views/arena.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type { FromKeeper, KeeperOpened, SharedNode, ToKeeper } from '../thread/messages.ts'
import { type PackedRequest, unpackRequest } from './request.ts'

/** Its writer's first message is a `KeeperOpened`. */
export type KeeperData = Pick<SharedNode, 'database' | 'views'> & {
  readonly writer: MessagePort
  /** Where blocks come from, which asks for roots or brings state; undefined: none come. */
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

if (parentPort !== null) run(parentPort, workerData as KeeperData)

function run(main: MessagePort, data: KeeperData): void {
  const tell = (message: FromKeeper) => main.postMessage(message)
  const { writer, sequencer } = data
  const { database: shared, views, ...limits } = data
  // Of a writer that is recorded or replayed: its time is that of what it asks.
  const stamp: Stamp = { wallMs: undefined }
  const keeper = attempt(tell, () =>
    createKeeper({
      ...limits,
      database: attachDatabase(shared, { isWriter: true }),
      words: keeperWords(views),
      now: () => performance.now(),
      wallMs: () => stamp.wallMs ?? Date.now(),
    }),
  )
  // Main has been told why, and ends the process.
  if (keeper === undefined) return
  const { opened } = keeper
  writer.postMessage({ type: 'opened', opened } satisfies KeeperOpened)
  tell({
    type: 'ready',
    foldedNumber: opened.foldHead.number,
    durableNumber: opened.durableHead.number,
    dropped: opened.dropped.length,
  })
  saveCompiledLater()
  const stop = serve(keeper, { ...data, stamp }, tell)
  main.on('message', (message: ToKeeper) => {
    if (message.type === 'taken') return keeper.ledger.taken(message.ms)
    stop()
    tell({ type: 'stopped' })
    close([main, writer, sequencer])
  })
}

/** Answers until the returned function is called, which finishes what is due and makes it safe against a loss of power. */
function serve(
  keeper: Keeper,
  data: KeeperData & { readonly stamp: Stamp },
  tell: (message: FromKeeper) => void,
): () => void {
  const { writer, sequencer, stamp } = data
  let slice: NodeJS.Immediate | undefined
  let hasFailed = false
  /** Of requests that are answered on the port they came from; one port of a node has such. */
  const askers = new Map<number, MessagePort>()
  const send = (answers: readonly KeeperAnswer[]) => {
    for (const answer of answers) {
      if (answer.type === 'failed' && !hasFailed) {
        hasFailed = true
        tell({ type: 'failed', message: answer.message })
      }
      const isOfAsker = answer.type === 'preview' || answer.type === 'filled'
      const port = isOfAsker ? askers.get(answer.request) : writer
      if (isOfAsker) askers.delete(answer.request)
      port?.postMessage(answer)
    }
  }
  // One slice, then the messages that came meanwhile: an append never waits for a whole fold.
  const schedule = () => {
    if (slice !== undefined || !keeper.hasWork()) return
    slice = setImmediate(() => {
      slice = undefined
      attempt(tell, () => send(keeper.step()))
      schedule()
    })
  }
  for (const port of [writer, sequencer])
    port?.on('message', (packed: PackedRequest) => {
      stamp.wallMs = packed.wallMs
      const { request } = packed
      if (request.type === 'preview' || request.type === 'fill') askers.set(request.request, port)
      attempt(tell, () => send(keeper.handle(unpackRequest(packed))))
      schedule()
    })
  let isBeating = false
  async function beatOnce(): Promise<void> {
    if (isBeating) return
    isBeating = true
    try {
      send(await keeper.sync())
      const stats = keeper.stats()
      const logBytes = await keeper.logBytes()
      tell({ type: 'stats', stats: { ...stats, logBytes }, ledger: keeper.ledger.stats() })
    } catch (error) {
      attempt(tell, () => {
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
    attempt(tell, () => send(keeper.flush()))
  }
}

/** A failure of ours: main ends the process. What is committed stays. */
function attempt<Result>(
  tell: (message: FromKeeper) => void,
  work: () => Result,
): Result | undefined {
  try {
    return work()
  } catch (error) {
    const failure = storageFailure(error) ?? `the keeper cannot go on: ${(error as Error).message}`
    tell({ type: 'failed', message: failure })
    return undefined
  }
}

function close(ports: readonly (MessagePort | undefined)[]): void {
  for (const port of ports) port?.close()
}
