/**
 * Starts the threads that move the chain: the writer, the persistence thread, and the source of
 * blocks.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { OpenedData } from '../data/open.ts'
import type { PersistenceData } from '../persistence/persistence.ts'
import type { NodeContext } from '../process/context.ts'
import { PERSISTENCE_YOUNG_HEAP_MB } from '../thread/heaps.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import type {
  FromPersistence,
  FromRecording,
  FromWriter,
  ToPersistence,
  ToWriter,
} from '../thread/messages.ts'
import { SOURCE_ROW, WRITER_ROW } from '../thread/rows.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { WriterData } from '../writer/writer.ts'
import type { Role, RoleRecording, Source } from './role.ts'

type WriterMessage = Exclude<FromWriter, FromRecording>

export interface ChainThreads {
  readonly writer: Thread<ToWriter>
  readonly persistence: Thread<ToPersistence>
  readonly source: Source | undefined
  readonly fromWriter: Inbox<WriterMessage>
  readonly fromPersistence: Inbox<FromPersistence>
  /** Resolves when the writer has published its first snapshot. */
  readonly ready: Promise<void>
}

/**
 * Time that is reserved for each, however long earlier parts take. Work that the persistence thread
 * leaves unfinished is repeated at the next start.
 */
const [WRITER_MS, PERSISTENCE_MS] = [300, 700] as const
/** Share of the database's block caches that trie nodes may take in addition. */
const TRIE_CACHE_SHARE = 1 / 4

type Ends = { onLost(reason: string): void; onEnded(thread: number): void }
type Port = MessagePort | undefined

/** Starts the threads, which load while the main thread loads its own modules. */
export function startChainThreads(
  context: NodeContext,
  data: OpenedData,
  role: Pick<
    Role,
    'startSource' | 'feeds' | 'lazyCacheBytes' | 'finality' | 'recording' | 'flashblockLag'
  >,
): ChainThreads {
  const { startSource, feeds, lazyCacheBytes, finality, recording, flashblockLag } = role
  const toWriter = new MessageChannel()
  const link = startSource && { persistence: new MessageChannel(), writer: new MessageChannel() }
  const toFeeds = Array.from({ length: feeds ?? 0 }, () => new MessageChannel())
  const ready = Promise.withResolvers<void>()
  const [fromWriter, fromPersistence] = [
    createInbox<WriterMessage>(),
    createInbox<FromPersistence>(),
  ]
  const ends: Ends = {
    onLost: context.fail,
    onEnded: (thread) => data.database.threadEnded(thread),
  }
  const persistence = startPersistence(
    { context, data, ends },
    { writer: toWriter.port1, source: link?.persistence.port1, lazyCacheBytes, finality },
    fromPersistence.push,
  )
  const writer = startWriter(
    { context, data, ends },
    {
      persistence: toWriter.port2,
      source: link?.writer.port1,
      feeds: feeds === undefined ? undefined : toFeeds.map(({ port1 }) => port1),
      finality,
      recording,
      flashblockLag,
    },
    (message) => {
      if (message.type === 'ready') ready.resolve()
      if (isOfRecording(message))
        return onRecording(message, recording, () => writer.post({ type: 'asked' }))
      fromWriter.push(message)
    },
  )
  const newFeed = () => {
    const { port1, port2 } = new MessageChannel()
    writer.post({ type: 'feed', port: port1 }, [port1])
    return port2
  }
  const source =
    link &&
    startSource?.({
      ...ends,
      context,
      data,
      row: SOURCE_ROW,
      persistence: link.persistence.port2,
      writer: link.writer.port2,
      feeds: toFeeds.map(({ port2 }) => port2),
      newFeed,
    })
  return { writer, persistence, source, fromWriter, fromPersistence, ready: ready.promise }
}

function onRecording(
  message: FromRecording,
  recording: RoleRecording | undefined,
  onDone: () => void,
): void {
  if (message.type === 'ask' && recording?.type === 'replay')
    void recording.onRequest(message.lines, message.at).then(onDone)
  else if (message.type === 'recorded' && recording?.type === 'record')
    recording.onLines(message.lines)
  else if (message.type === 'replaying' && recording?.type === 'replay')
    recording.onStatus(message.status)
  else if (message.type === 'replayed' && recording?.type === 'replay')
    recording.onEnd(message.ended)
}

const OF_RECORDING = ['recorded', 'ask', 'replaying', 'replayed'] as const
const isOfRecording = (message: FromWriter): message is FromRecording =>
  OF_RECORDING.some((type) => type === message.type)

type Around = { readonly context: NodeContext; readonly data: OpenedData; readonly ends: Ends }

function startPersistence(
  { context: { config, lifecycle }, data: { shared }, ends }: Around,
  ports: {
    readonly writer: MessagePort
    readonly source: Port
    readonly lazyCacheBytes: number | undefined
    readonly finality: Role['finality']
  },
  onMessage: (message: FromPersistence) => void,
): Thread<ToPersistence> {
  const data: PersistenceData = {
    database: shared.database,
    views: shared.views,
    writer: ports.writer,
    sequencer: ports.source,
    foldDepth: config.heldFlashblocks,
    ...(config.historyBlocks === 'all' ? {} : { historyBlocks: config.historyBlocks }),
    ledger: { retentionMs: config.ledgerHours * 3_600_000, bytes: config.ledgerSize * 2 ** 20 },
    // Blocks that wait for persisting stand above the undo window.
    ...(ports.finality === undefined ? {} : { undoWindow: ports.finality.undoBlocks }),
    trieCacheBytes: config.dbCache * 2 ** 20 * TRIE_CACHE_SHARE,
    ...(ports.lazyCacheBytes === undefined ? {} : { lazyCacheBytes: ports.lazyCacheBytes }),
  }
  const persistence = startThread<ToPersistence, FromPersistence>({
    ...ends,
    name: 'keeper',
    file: new URL('../persistence/persistence.ts', import.meta.url),
    data,
    youngHeapMb: PERSISTENCE_YOUNG_HEAP_MB,
    transfer: given([ports.writer, ports.source]),
    onMessage,
  })
  lifecycle.onStop(
    'the persistence thread',
    (withinMs) => persistence.stop({ type: 'stop' }, withinMs),
    {
      minMs: PERSISTENCE_MS,
    },
  )
  return persistence
}

function startWriter(
  { context: { config, lifecycle }, data: { shared, directory }, ends }: Around,
  ports: {
    readonly persistence: MessagePort
    readonly source: Port
    /** undefined if the source is a sequencer. */
    readonly feeds: readonly MessagePort[] | undefined
    readonly finality: Role['finality']
    readonly recording: Role['recording']
    readonly flashblockLag: Role['flashblockLag']
  },
  onMessage: (message: FromWriter) => void,
): Thread<ToWriter> {
  const { persistence, source, feeds, finality, recording, flashblockLag } = ports
  const data: WriterData = {
    ...shared,
    thread: WRITER_ROW,
    persistence,
    sequencer: feeds === undefined ? source : undefined,
    /*
     * Writer and persistence thread share this depth: with a smaller one the writer would wait for
     * persisting that never comes.
     */
    limits: {
      foldDepth: config.heldFlashblocks,
      ...(finality === undefined ? {} : limitsOf(finality)),
    },
    flashblockLag,
    emitsChanges: source !== undefined && config.limits.feedEnrichedBytes > 0,
    isRecorded: recording?.type === 'record',
    replay: recording?.type === 'replay' ? recording.data : undefined,
    followed: source && feeds && { follower: source, feeds, frames: directory.flashblocks },
  }
  const writer = startThread<ToWriter, FromWriter>({
    ...ends,
    name: 'writer',
    file: new URL('../writer/writer.ts', import.meta.url),
    data,
    transfer: given([persistence, source, ...(feeds ?? [])]),
    onMessage,
  })
  lifecycle.onStop('the writer', (withinMs) => writer.stop({ type: 'stop' }, withinMs), {
    minMs: WRITER_MS,
  })
  return writer
}

const limitsOf = ({ safeLag, finalizedLag, undoBlocks }: NonNullable<Role['finality']>) => ({
  safeLag,
  finalizedLag,
  pinBlocks: undoBlocks,
})

const given = (ports: readonly Port[]): MessagePort[] => ports.filter((port) => port !== undefined)
