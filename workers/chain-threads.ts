/** The threads that move the chain: writer and keeper, and in `dev` the sequencer. */
import { MessageChannel } from 'node:worker_threads'
import type { L1Figures } from '../engine/sources/sequencer-attributes.ts'
import type { Config } from './config.ts'
import type { NodeContext } from './context.ts'
import { KEEPER_YOUNG_HEAP_MB } from './heaps.ts'
import { createInbox, type Inbox } from './inbox.ts'
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
  /** `dev` only; does nothing before it is told to start. */
  readonly sequencer: Thread<ToSequencer> | undefined
  readonly fromWriter: Inbox<FromWriter>
  readonly fromKeeper: Inbox<FromKeeper>
  readonly fromSequencer: Inbox<FromSequencer>
  /** The writer has published its first record. */
  readonly ready: Promise<void>
}

const STOP_MS = 3_000

/** They load while the main thread loads the rest of itself. */
export function startChainThreads(context: NodeContext, data: OpenedData): ChainThreads {
  const { config, lifecycle, fail } = context
  const toWriter = new MessageChannel()
  const toSequencer = config.command === 'dev' ? new MessageChannel() : undefined
  const ready = Promise.withResolvers<void>()
  const [fromWriter, fromKeeper] = [createInbox<FromWriter>(), createInbox<FromKeeper>()]
  const { database, shared } = data
  const ends = { onLost: fail, onEnded: (thread: number) => database.threadEnded(thread) }

  const keeperData: KeeperData = {
    database: shared.database,
    views: shared.views,
    writer: toWriter.port1,
    sequencer: toSequencer?.port1,
    ...(config.historyBlocks === 'all' ? {} : { historyBlocks: config.historyBlocks }),
    trieCacheBytes: config.trieCacheBytes,
  }
  const keeper = startThread<ToKeeper, FromKeeper>({
    ...{ ...ends, name: 'keeper', file: './keeper.ts', data: keeperData },
    youngHeapMb: KEEPER_YOUNG_HEAP_MB,
    transfer: [toWriter.port1, ...(toSequencer === undefined ? [] : [toSequencer.port1])],
    onMessage: fromKeeper.push,
  })
  lifecycle.onStop('the keeper', () => keeper.stop({ type: 'stop' }, STOP_MS))

  const writerData: WriterData = { ...shared, thread: WRITER_ROW, keeper: toWriter.port2 }
  const writer = startThread<ToWriter, FromWriter>({
    ...{ ...ends, name: 'writer', file: './writer.ts', data: writerData },
    transfer: [toWriter.port2],
    onMessage(message) {
      if (message.type === 'ready') ready.resolve()
      fromWriter.push(message)
    },
  })
  lifecycle.onStop('the writer', () => writer.stop({ type: 'stop' }, STOP_MS))

  const fromSequencer = createInbox<FromSequencer>()
  const sequencer =
    toSequencer === undefined
      ? undefined
      : startSequencer(context, data, {
          ...ends,
          keeper: toSequencer.port2,
          onMessage: fromSequencer.push,
        })
  return { writer, sequencer, fromWriter, fromKeeper, fromSequencer, ready: ready.promise }
}

function startSequencer(
  { config, lifecycle }: NodeContext,
  { shared, directory }: OpenedData,
  { keeper, ...handlers }: Pick<SequencerData, 'keeper'> & SequencerHandlers,
): Thread<ToSequencer> {
  const data: SequencerData = {
    ...shared,
    thread: SEQUENCER_ROW,
    keeper,
    journal: directory.flashblocks,
    blockTimeMs: config.blockTimeMs,
    flashblockTimeMs: config.flashblockTimeMs,
    form: config.feedForm,
    l1: l1Figures(config),
  }
  const sequencer = startThread<ToSequencer, FromSequencer>({
    ...{ ...handlers, name: 'sequencer', file: './sequencer.ts', data },
    transfer: [keeper],
  })
  lifecycle.onStop('the sequencer', () => sequencer.stop({ type: 'stop' }, STOP_MS))
  return sequencer
}

const l1Figures = (config: Config): L1Figures => ({
  baseFee: BigInt(config.l1BaseFee),
  blobBaseFee: BigInt(config.l1BlobBaseFee),
  baseFeeScalar: BigInt(config.l1BaseFeeScalar),
  blobBaseFeeScalar: BigInt(config.l1BlobBaseFeeScalar),
  operatorFeeScalar: BigInt(config.operatorFeeScalar),
  operatorFeeConstant: BigInt(config.operatorFeeConstant),
  daFootprintGasScalar: BigInt(config.daFootprintScalar),
})

type SequencerHandlers = {
  readonly onMessage: (message: FromSequencer) => void
  readonly onLost: (reason: string) => void
  readonly onEnded: (thread: number) => void
}
