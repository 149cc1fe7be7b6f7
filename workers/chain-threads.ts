/** The threads that move the chain: writer and keeper, and in `dev` the sequencer. */
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { NodeContext } from './context.ts'
import type { KeeperData } from './keeper.ts'
import type {
  FromKeeper,
  FromSequencer,
  FromWriter,
  ToKeeper,
  ToSequencer,
  ToWriter,
} from './messages.ts'
import type { OpenedData } from './open.ts'
import type { SequencerData } from './sequencer.ts'
import { startThread, type Thread } from './thread.ts'
import { SEQUENCER_ROW, WRITER_ROW } from './threads.ts'
import type { WriterData } from './writer.ts'

export interface ChainThreads {
  readonly writer: Thread<ToWriter>
  /** The writer has published its first record. */
  readonly ready: Promise<void>
  /** `dev` only, once the chain is ready. */
  startSequencer(onMessage: (message: FromSequencer) => void): Thread<ToSequencer>
}

export type ChainEvents = {
  readonly onWriter: (message: FromWriter) => void
  readonly onKeeper: (message: FromKeeper) => void
}

const STOP_MS = 3_000

export function startChainThreads(
  { config, lifecycle, fail }: NodeContext,
  { database, shared, directory }: OpenedData,
  events: ChainEvents,
): ChainThreads {
  const isDev = config.command === 'dev'
  const toWriter = new MessageChannel()
  const toSequencer = isDev ? new MessageChannel() : undefined
  const ready = Promise.withResolvers<void>()
  const onEnded = (thread: number) => database.threadEnded(thread)

  const keeperData: KeeperData = {
    database: shared.database,
    views: shared.views,
    writer: toWriter.port1,
    sequencer: toSequencer?.port1,
    ...(config.historyBlocks === 'all' ? {} : { historyBlocks: config.historyBlocks }),
  }
  const keeper = startThread<ToKeeper, FromKeeper>({
    name: 'keeper',
    file: './keeper.ts',
    data: keeperData,
    transfer: [toWriter.port1, ...portsOf(toSequencer?.port1)],
    onMessage: events.onKeeper,
    onLost: fail,
    onEnded,
  })
  lifecycle.onStop('the keeper', () => keeper.stop({ type: 'stop' }, STOP_MS))

  const writerData: WriterData = { ...shared, thread: WRITER_ROW, keeper: toWriter.port2 }
  const writer = startThread<ToWriter, FromWriter>({
    name: 'writer',
    file: './writer.ts',
    data: writerData,
    transfer: [toWriter.port2],
    onMessage(message) {
      if (message.type === 'ready') ready.resolve()
      events.onWriter(message)
    },
    onLost: fail,
    onEnded,
  })
  lifecycle.onStop('the writer', () => writer.stop({ type: 'stop' }, STOP_MS))

  return {
    writer,
    ready: ready.promise,
    startSequencer(onMessage) {
      if (toSequencer === undefined) throw new Error('a sequencer runs in dev only')
      const data: SequencerData = {
        ...shared,
        thread: SEQUENCER_ROW,
        keeper: toSequencer.port2,
        journal: directory.flashblocks,
        blockTimeMs: config.blockTimeMs,
        flashblockTimeMs: config.flashblockTimeMs,
      }
      const sequencer = startThread<ToSequencer, FromSequencer>({
        name: 'sequencer',
        file: './sequencer.ts',
        data,
        transfer: [toSequencer.port2],
        onMessage,
        onLost: fail,
        onEnded,
      })
      lifecycle.onStop('the sequencer', () => sequencer.stop({ type: 'stop' }, STOP_MS))
      return sequencer
    },
  }
}

const portsOf = (port: MessagePort | undefined) => (port === undefined ? [] : [port])
