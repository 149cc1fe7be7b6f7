/** The threads that move the chain: writer and keeper, and where blocks come from. */
import { MessageChannel } from 'node:worker_threads'
import type { OpenedData } from '../data/open.ts'
import type { KeeperData } from '../keeper/keeper.ts'
import type { NodeContext } from '../process/context.ts'
import { KEEPER_YOUNG_HEAP_MB } from '../thread/heaps.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import type { FromKeeper, FromWriter, ToKeeper, ToWriter } from '../thread/messages.ts'
import { SOURCE_ROW, WRITER_ROW } from '../thread/rows.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { WriterData } from '../writer/writer.ts'
import type { Source, StartSource } from './role.ts'

export interface ChainThreads {
  readonly writer: Thread<ToWriter>
  readonly source: Source | undefined
  readonly fromWriter: Inbox<FromWriter>
  readonly fromKeeper: Inbox<FromKeeper>
  /** The writer has published its first record. */
  readonly ready: Promise<void>
}

const STOP_MS = 3_000
/** Of the database's block caches: what trie nodes may take beside them. */
const TRIE_CACHE_SHARE = 1 / 4

/** They load while the main thread loads the rest of itself. */
export function startChainThreads(
  context: NodeContext,
  data: OpenedData,
  startSource: StartSource | undefined,
): ChainThreads {
  const { config, lifecycle, fail } = context
  const toWriter = new MessageChannel()
  const link = startSource && { keeper: new MessageChannel(), writer: new MessageChannel() }
  const ready = Promise.withResolvers<void>()
  const [fromWriter, fromKeeper] = [createInbox<FromWriter>(), createInbox<FromKeeper>()]
  const { database, shared } = data
  const ends = { onLost: fail, onEnded: (thread: number) => database.threadEnded(thread) }

  const keeperData: KeeperData = {
    database: shared.database,
    views: shared.views,
    writer: toWriter.port1,
    sequencer: link?.keeper.port1,
    ...(config.historyBlocks === 'all' ? {} : { historyBlocks: config.historyBlocks }),
    trieCacheBytes: config.dbCache * 2 ** 20 * TRIE_CACHE_SHARE,
  }
  const keeper = startThread<ToKeeper, FromKeeper>({
    ...{
      ...ends,
      name: 'keeper',
      file: new URL('../keeper/keeper.ts', import.meta.url),
      data: keeperData,
    },
    youngHeapMb: KEEPER_YOUNG_HEAP_MB,
    transfer: [toWriter.port1, ...(link === undefined ? [] : [link.keeper.port1])],
    onMessage: fromKeeper.push,
  })
  lifecycle.onStop('the keeper', () => keeper.stop({ type: 'stop' }, STOP_MS))

  const writerData: WriterData = {
    ...shared,
    thread: WRITER_ROW,
    keeper: toWriter.port2,
    sequencer: link?.writer.port1,
  }
  const writer = startThread<ToWriter, FromWriter>({
    ...{
      ...ends,
      name: 'writer',
      file: new URL('../writer/writer.ts', import.meta.url),
      data: writerData,
    },
    transfer: [toWriter.port2, ...(link === undefined ? [] : [link.writer.port1])],
    onMessage(message) {
      if (message.type === 'ready') ready.resolve()
      fromWriter.push(message)
    },
  })
  lifecycle.onStop('the writer', () => writer.stop({ type: 'stop' }, STOP_MS))

  const source =
    link &&
    startSource?.({
      ...{ ...ends, context, data, row: SOURCE_ROW },
      keeper: link.keeper.port2,
      writer: link.writer.port2,
    })
  return { writer, source, fromWriter, fromKeeper, ready: ready.promise }
}
