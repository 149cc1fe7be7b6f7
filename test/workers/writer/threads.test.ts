/** Writer and keeper as threads, over a real database and real views; the test is the sequencer. */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import { encodePacket } from '../../../engine/flashblocks/codec.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { columnOptions } from '../../../engine/storage/database/columns.ts'
import { openDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { createViews } from '../../../engine/views/arena.ts'
import type { KeeperData } from '../../../workers/keeper/keeper.ts'
import type {
  FromKeeper,
  FromWriter,
  SequencerToWriter,
  ToKeeper,
  ToWriter,
  WriterToSequencer,
} from '../../../workers/thread/messages.ts'
import type { WriterData } from '../../../workers/writer/writer.ts'
import { CHAIN, CHAIN_OPTION, type ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches } from '../../fixtures/writer-branches.ts'
import { hex } from '../../fixtures/writer-world.ts'

let blocks: readonly ProducedBlock[]
let folder: string
let database: Database
beforeAll(async () => {
  blocks = (await createBranches()).a
})
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'writer-'))
  database = await openDatabase(join(folder, 'state'), columnOptions(), { createIfMissing: true })
  importGenesis(database, CHAIN)
})
afterEach(async () => {
  await database.close()
  rmSync(folder, { recursive: true })
})

/** Everything a thread has said, and a way to wait for what it has not said yet. */
function listen<Message extends { readonly type: string }>(worker: Worker) {
  const told: Message[] = []
  const waiting = new Set<() => void>()
  worker.on('message', (message: Message) => {
    told.push(message)
    for (const look of waiting) look()
  })
  return {
    told,
    /** The first message from now or before that fits. */
    until: (fits: (message: Message) => boolean) =>
      new Promise<Message>((resolve) => {
        const look = () => {
          const found = told.find(fits)
          if (found === undefined) return
          waiting.delete(look)
          resolve(found)
        }
        waiting.add(look)
        look()
      }),
  }
}

/** The sequencer's end of the port between it and the writer. */
function sequencerOn(feed: MessagePort) {
  const send = (message: SequencerToWriter) => feed.postMessage(message)
  let published = 0
  feed.on('message', ({ type }: WriterToSequencer) => {
    if (type === 'published') published++
  })
  return {
    show({ flashblocks, end }: ProducedBlock) {
      for (const message of [...flashblocks, end])
        send({ type: 'packet', packet: encodePacket(message) })
    },
    seal: ({ sealed }: ProducedBlock) => send({ type: 'sealed', block: sealed }),
    garbage: () => send({ type: 'packet', packet: Buffer.from('{"payload_id": 1}') }),
    /** As when its thread ends. */
    leave: () => feed.close(),
    /** How often the writer has said that there is a newer record. */
    published: () => published,
    closed: once(feed, 'close'),
  }
}

/** @param before what the sequencer does while the writer loads. */
async function startThreads(
  before: (sequencer: ReturnType<typeof sequencerOn>) => void = () => {},
) {
  const views = createViews({ bytes: 8 << 20, threads: 2, seed: 1 })
  const { port1, port2 } = new MessageChannel()
  const { port1: feed, port2: toWriter } = new MessageChannel()
  const keeperData: KeeperData = {
    database: database.share(),
    views,
    writer: port1,
    sequencer: undefined,
    foldDepth: 1,
  }
  const writerData: WriterData = {
    database: database.share(),
    views,
    thread: 1,
    chain: CHAIN_OPTION,
    engine: 'reference',
    keeper: port2,
    tellsChanges: false,
    sequencer: toWriter,
  }
  const start = (name: string, workerData: unknown, transfer: (typeof port1)[]) =>
    new Worker(new URL(`../../../workers/${name}/${name}.ts`, import.meta.url), {
      workerData,
      transferList: transfer as never,
    })
  const keeper = start('keeper', keeperData, [port1])
  const writer = start('writer', writerData, [port2, toWriter])
  const sequencer = sequencerOn(feed)
  before(sequencer)
  const fromKeeper = listen<FromKeeper>(keeper)
  const fromWriter = listen<FromWriter>(writer)
  const say = (message: ToWriter) => writer.postMessage(message)
  await fromWriter.until(({ type }) => type === 'ready')
  const reader = openChainReader({ views, store: openStore(database), chain: CHAIN, thread: 0 })
  return {
    ...fromWriter,
    sequencer,
    heads() {
      const lease = reader.lease('flashblocks')
      const { canonical, pending } = lease.view
      lease.release()
      return { canonical: hex(canonical.hash), pending: Number(pending.number) }
    },
    async stop() {
      say({ type: 'stop' })
      await fromWriter.until(({ type }) => type === 'stopped')
      keeper.postMessage({ type: 'stop' } satisfies ToKeeper)
      await fromKeeper.until(({ type }) => type === 'stopped')
      for (const worker of [writer, keeper])
        if (worker.threadId >= 0) await new Promise((resolve) => worker.once('exit', resolve))
      await sequencer.closed
      return fromKeeper.told
    },
  }
}

const isComplete = (number: number) => (message: FromWriter) =>
  message.type === 'published' && message.complete === number
const isSealed = (number: number) => (message: FromWriter) =>
  message.type === 'sealed' && message.number === number

test('packets become pending, canonical blocks durable; a restart costs nothing', async () => {
  const first = await startThreads()
  first.sequencer.garbage()
  for (const block of blocks.slice(0, 4)) {
    first.sequencer.show(block)
    await first.until(isComplete(block.number))
    first.sequencer.seal(block)
    await first.until(isSealed(block.number))
    expect(first.heads().canonical).toBe(hex(block.hash))
  }
  const keeperTold = await first.stop()
  expect(first.told).toContainEqual({ type: 'count', what: 'feed_refused', by: 1 })
  expect(first.told.filter(({ type }) => type === 'halted')).toEqual([])
  expect(keeperTold.filter(({ type }) => type === 'failed')).toEqual([])
  const publishes = first.told.filter(({ type }) => type === 'published').length
  expect(first.sequencer.published()).toBe(publishes)

  const second = await startThreads()
  expect(second.heads()).toEqual({ canonical: hex(blocks[3]!.hash), pending: 4 })
  second.sequencer.seal(blocks[4]!)
  await second.until(isSealed(5))
  expect(second.heads().canonical).toBe(hex(blocks[4]!.hash))
  await second.stop()
})

test('what was sent before the writer was there is applied, and before it hears that the sequencer has gone', async () => {
  const [block] = blocks
  const threads = await startThreads((early) => {
    early.show(block!)
    early.seal(block!)
    early.leave()
  })
  await threads.until(isSealed(1))
  expect(threads.heads()).toEqual({ canonical: hex(block!.hash), pending: 1 })
  await threads.stop()
})
