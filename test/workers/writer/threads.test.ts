/**
 * The writer and the persistence thread run as threads over a real database and real views; the
 * test acts as the sequencer.
 */
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
import type { PersistenceData } from '../../../workers/persistence/persistence.ts'
import type {
  FromPersistence,
  FromWriter,
  SequencerToWriter,
  ToPersistence,
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

/** Records the messages of a thread, on which a test can wait for more. */
function listen<Message extends { readonly type: string }>(worker: Worker) {
  const received: Message[] = []
  const waiting = new Set<() => void>()
  worker.on('message', (message: Message) => {
    received.push(message)
    for (const check of waiting) check()
  })
  return {
    received,
    /** Gives the first matching message, earlier ones included. */
    until: (fits: (message: Message) => boolean) =>
      new Promise<Message>((resolve) => {
        const check = () => {
          const found = received.find(fits)
          if (found === undefined) return
          waiting.delete(check)
          resolve(found)
        }
        waiting.add(check)
        check()
      }),
  }
}

/** Makes the sequencer's end of the port to the writer. */
function sequencerOn(feed: MessagePort) {
  const send = (message: SequencerToWriter) => feed.postMessage(message)
  let published = 0
  feed.on('message', ({ type }: WriterToSequencer) => {
    if (type === 'published') published++
  })
  return {
    deliver({ flashblocks, end }: ProducedBlock) {
      for (const message of [...flashblocks, end])
        send({ type: 'packet', packet: encodePacket(message) })
    },
    seal: ({ upstreamBlock }: ProducedBlock) => send({ type: 'sealed', block: upstreamBlock }),
    garbage: () => send({ type: 'packet', packet: Buffer.from('{"payload_id": 1}') }),
    /** Closes the port, like the end of the sequencer's thread. */
    leave: () => feed.close(),
    /** Counts the writer's reports of a newer snapshot. */
    published: () => published,
    closed: once(feed, 'close'),
  }
}

/**
 * Starts the threads.
 * @param before acts as the sequencer while the writer loads
 */
async function startThreads(
  before: (sequencer: ReturnType<typeof sequencerOn>) => void = () => {},
) {
  const views = createViews({ bytes: 8 << 20, threads: 2, seed: 1 })
  const { port1, port2 } = new MessageChannel()
  const { port1: feed, port2: toWriter } = new MessageChannel()
  const persistenceData: PersistenceData = {
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
    persistence: port2,
    emitsChanges: false,
    sequencer: toWriter,
  }
  const start = (name: string, workerData: unknown, transfer: (typeof port1)[]) =>
    new Worker(new URL(`../../../workers/${name}/${name}.ts`, import.meta.url), {
      workerData,
      transferList: transfer as never,
    })
  const persistence = start('persistence', persistenceData, [port1])
  const writer = start('writer', writerData, [port2, toWriter])
  const sequencer = sequencerOn(feed)
  before(sequencer)
  const fromPersistence = listen<FromPersistence>(persistence)
  const fromWriter = listen<FromWriter>(writer)
  const post = (message: ToWriter) => writer.postMessage(message)
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
      post({ type: 'stop' })
      await fromWriter.until(({ type }) => type === 'stopped')
      persistence.postMessage({ type: 'stop' } satisfies ToPersistence)
      await fromPersistence.until(({ type }) => type === 'stopped')
      for (const worker of [writer, persistence])
        if (worker.threadId >= 0) await new Promise((resolve) => worker.once('exit', resolve))
      await sequencer.closed
      return fromPersistence.received
    },
  }
}

const isComplete = (number: number) => (message: FromWriter) =>
  message.type === 'published' && message.complete === number
const isSealed = (number: number) => (message: FromWriter) =>
  message.type === 'sealed' && message.number === number

test('packets become pending, canonical blocks are durable, and a restart keeps all', async () => {
  const first = await startThreads()
  first.sequencer.garbage()
  for (const block of blocks.slice(0, 4)) {
    first.sequencer.deliver(block)
    await first.until(isComplete(block.number))
    first.sequencer.seal(block)
    await first.until(isSealed(block.number))
    expect(first.heads().canonical).toBe(hex(block.hash))
  }
  const persistenceEmitted = await first.stop()
  expect(first.received).toContainEqual({ type: 'count', what: 'feed_refused', by: 1 })
  expect(first.received.filter(({ type }) => type === 'halted')).toEqual([])
  expect(persistenceEmitted.filter(({ type }) => type === 'failed')).toEqual([])
  const publishes = first.received.filter(({ type }) => type === 'published').length
  expect(first.sequencer.published()).toBe(publishes)

  const second = await startThreads()
  expect(second.heads()).toEqual({ canonical: hex(blocks[3]!.hash), pending: 4 })
  second.sequencer.seal(blocks[4]!)
  await second.until(isSealed(5))
  expect(second.heads().canonical).toBe(hex(blocks[4]!.hash))
  await second.stop()
})

test('early messages are applied before the writer handles the end of the sequencer', async () => {
  const [block] = blocks
  const threads = await startThreads((early) => {
    early.deliver(block!)
    early.seal(block!)
    early.leave()
  })
  await threads.until(isSealed(1))
  expect(threads.heads()).toEqual({ canonical: hex(block!.hash), pending: 1 })
  await threads.stop()
})
