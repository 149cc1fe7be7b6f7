/** The threads that move the chain: writer and keeper, and where blocks come from. */
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { OpenedData } from '../data/open.ts'
import type { KeeperData } from '../keeper/keeper.ts'
import type { NodeContext } from '../process/context.ts'
import { KEEPER_YOUNG_HEAP_MB } from '../thread/heaps.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import type { FromKeeper, FromTape, FromWriter, ToKeeper, ToWriter } from '../thread/messages.ts'
import { SOURCE_ROW, WRITER_ROW } from '../thread/rows.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { WriterData } from '../writer/writer.ts'
import type { Role, RoleTape, Source } from './role.ts'

type HeardFromWriter = Exclude<FromWriter, FromTape>

export interface ChainThreads {
  readonly writer: Thread<ToWriter>
  readonly keeper: Thread<ToKeeper>
  readonly source: Source | undefined
  readonly fromWriter: Inbox<HeardFromWriter>
  readonly fromKeeper: Inbox<FromKeeper>
  /** The writer has published its first record. */
  readonly ready: Promise<void>
}

/** Kept for each, whatever the parts before it take: the keeper finishes what is due, and what it cannot finish is made again at the next start. */
const [WRITER_MS, KEEPER_MS] = [300, 700] as const
/** Of the database's block caches: what trie nodes may take beside them. */
const TRIE_CACHE_SHARE = 1 / 4

type Ends = { onLost(reason: string): void; onEnded(thread: number): void }
type Port = MessagePort | undefined

/** They load while the main thread loads the rest of itself. */
export function startChainThreads(
  context: NodeContext,
  data: OpenedData,
  role: Pick<Role, 'startSource' | 'feeds' | 'lazyCacheBytes' | 'finality' | 'tape' | 'behind'>,
): ChainThreads {
  const { startSource, feeds, lazyCacheBytes, finality, tape, behind } = role
  const toWriter = new MessageChannel()
  const link = startSource && { keeper: new MessageChannel(), writer: new MessageChannel() }
  const toFeeds = Array.from({ length: feeds ?? 0 }, () => new MessageChannel())
  const ready = Promise.withResolvers<void>()
  const [fromWriter, fromKeeper] = [createInbox<HeardFromWriter>(), createInbox<FromKeeper>()]
  const ends: Ends = {
    onLost: context.fail,
    onEnded: (thread) => data.database.threadEnded(thread),
  }
  const keeper = startKeeper(
    { context, data, ends },
    { writer: toWriter.port1, source: link?.keeper.port1, lazyCacheBytes, finality },
    fromKeeper.push,
  )
  const writer = startWriter(
    { context, data, ends },
    {
      keeper: toWriter.port2,
      source: link?.writer.port1,
      feeds: feeds === undefined ? undefined : toFeeds.map(({ port1 }) => port1),
      ...{ finality, tape, behind },
    },
    (message) => {
      if (message.type === 'ready') ready.resolve()
      if (isOfTape(message)) return onTape(message, tape, () => writer.post({ type: 'asked' }))
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
      ...{ ...ends, context, data, row: SOURCE_ROW },
      keeper: link.keeper.port2,
      writer: link.writer.port2,
      feeds: toFeeds.map(({ port2 }) => port2),
      newFeed,
    })
  return { writer, keeper, source, fromWriter, fromKeeper, ready: ready.promise }
}

function onTape(message: FromTape, tape: RoleTape | undefined, asked: () => void): void {
  if (message.type === 'ask' && tape?.type === 'replay')
    void tape.onAsk(message.lines, message.at).then(asked)
  else if (message.type === 'recorded' && tape?.type === 'record') tape.onLines(message.lines)
  else if (message.type === 'replaying' && tape?.type === 'replay') tape.onStatus(message.status)
  else if (message.type === 'replayed' && tape?.type === 'replay') tape.onEnd(message.ended)
}

const OF_TAPE = ['recorded', 'ask', 'replaying', 'replayed'] as const
const isOfTape = (message: FromWriter): message is FromTape =>
  OF_TAPE.some((type) => type === message.type)

type Around = { readonly context: NodeContext; readonly data: OpenedData; readonly ends: Ends }

function startKeeper(
  { context: { config, lifecycle }, data: { shared }, ends }: Around,
  ports: {
    readonly writer: MessagePort
    readonly source: Port
    readonly lazyCacheBytes: number | undefined
    readonly finality: Role['finality']
  },
  onMessage: (message: FromKeeper) => void,
): Thread<ToKeeper> {
  const data: KeeperData = {
    database: shared.database,
    views: shared.views,
    writer: ports.writer,
    sequencer: ports.source,
    foldDepth: config.heldFlashblocks,
    ...(config.historyBlocks === 'all' ? {} : { historyBlocks: config.historyBlocks }),
    ledger: { keepMs: config.ledgerHours * 3_600_000, bytes: config.ledgerSize * 2 ** 20 },
    // Blocks that wait for their fold stand above it.
    ...(ports.finality === undefined ? {} : { undoWindow: ports.finality.undoBlocks }),
    trieCacheBytes: config.dbCache * 2 ** 20 * TRIE_CACHE_SHARE,
    ...(ports.lazyCacheBytes === undefined ? {} : { lazyCacheBytes: ports.lazyCacheBytes }),
  }
  const keeper = startThread<ToKeeper, FromKeeper>({
    ...{ ...ends, name: 'keeper', file: new URL('../keeper/keeper.ts', import.meta.url), data },
    youngHeapMb: KEEPER_YOUNG_HEAP_MB,
    transfer: given([ports.writer, ports.source]),
    onMessage,
  })
  lifecycle.onStop('the keeper', (withinMs) => keeper.stop({ type: 'stop' }, withinMs), {
    leastMs: KEEPER_MS,
  })
  return keeper
}

function startWriter(
  { context: { config, lifecycle }, data: { shared, directory }, ends }: Around,
  ports: {
    readonly keeper: MessagePort
    readonly source: Port
    /** undefined: the source is a sequencer. */
    readonly feeds: readonly MessagePort[] | undefined
    readonly finality: Role['finality']
    readonly tape: Role['tape']
    readonly behind: Role['behind']
  },
  onMessage: (message: FromWriter) => void,
): Thread<ToWriter> {
  const { keeper, source, feeds, finality, tape, behind } = ports
  const data: WriterData = {
    ...{ ...shared, thread: WRITER_ROW, keeper },
    sequencer: feeds === undefined ? source : undefined,
    // The keeper's depth of folding: with a smaller one canonical would wait for folds that never come.
    limits: {
      foldDepth: config.heldFlashblocks,
      ...(finality === undefined ? {} : limitsOf(finality)),
    },
    behind,
    tellsChanges: source !== undefined && config.limits.feedEnrichedBytes > 0,
    isRecorded: tape?.type === 'record',
    replay: tape?.type === 'replay' ? tape.data : undefined,
    followed: source && feeds && { follower: source, feeds, frames: directory.flashblocks },
  }
  const writer = startThread<ToWriter, FromWriter>({
    ...{ ...ends, name: 'writer', file: new URL('../writer/writer.ts', import.meta.url), data },
    transfer: given([keeper, source, ...(feeds ?? [])]),
    onMessage,
  })
  lifecycle.onStop('the writer', (withinMs) => writer.stop({ type: 'stop' }, withinMs), {
    leastMs: WRITER_MS,
  })
  return writer
}

const limitsOf = ({ safeLag, finalizedLag, undoBlocks }: NonNullable<Role['finality']>) => ({
  ...{ safeLag, finalizedLag },
  pinBlocks: undoBlocks,
})

const given = (ports: readonly Port[]): MessagePort[] => ports.filter((port) => port !== undefined)
