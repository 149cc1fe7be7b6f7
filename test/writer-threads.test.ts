/** Writer and keeper as threads, over a real database, real views and a real feed. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel, Worker } from 'node:worker_threads'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { openChainReader } from '../engine/chain/reader.ts'
import { encodeFrame } from '../engine/flashblocks/codec.ts'
import { columnOptions } from '../engine/storage/columns.ts'
import { type Database, openDatabase } from '../engine/storage/database.ts'
import { importGenesis } from '../engine/storage/genesis-import.ts'
import { openStore } from '../engine/storage/store.ts'
import { createViews } from '../engine/views/arena.ts'
import { createFeedHub } from '../rpc/feed.ts'
import { backOffMs } from '../workers/feed-client.ts'
import type { KeeperData } from '../workers/keeper.ts'
import type { FromKeeper, FromWriter, ToKeeper, ToWriter } from '../workers/messages.ts'
import type { WriterData } from '../workers/writer.ts'
import { CHAIN, CHAIN_OPTION, type ProducedBlock } from './fixtures/producer.ts'
import { startServer } from './fixtures/sockets.ts'
import { createBranches } from './fixtures/writer-branches.ts'
import { hex } from './fixtures/writer-world.ts'

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

async function startThreads() {
  const views = createViews({ bytes: 8 << 20, threads: 2, seed: 1 })
  const { port1, port2 } = new MessageChannel()
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
  }
  const start = (name: string, workerData: unknown, transfer: typeof port1) =>
    new Worker(new URL(`../workers/${name}.ts`, import.meta.url), {
      workerData,
      transferList: [transfer as never],
    })
  const keeper = start('keeper', keeperData, port1)
  const writer = start('writer', writerData, port2)
  const fromKeeper = listen<FromKeeper>(keeper)
  const fromWriter = listen<FromWriter>(writer)
  const say = (message: ToWriter) => writer.postMessage(message)
  await fromWriter.until(({ type }) => type === 'ready')
  const reader = openChainReader({ views, store: openStore(database), chain: CHAIN, thread: 0 })
  return {
    ...fromWriter,
    say,
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
      return fromKeeper.told
    },
  }
}

/** A feed whose subscribers can be waited for and sent away. */
async function startFeed() {
  const hub = createFeedHub({ maxSubscribers: 2, maxQueuedBytes: 1 << 20, token: 'b6'.repeat(16) })
  let joined = Promise.withResolvers<() => void>()
  const { server, port } = await startServer({
    feed: (connection) => {
      const handlers = hub.open(connection)
      joined.resolve(() => connection.close(1001, 'going away'))
      return handlers
    },
    isOwn: hub.isOwn,
  })
  return {
    url: `ws://127.0.0.1:${port}/feed`,
    close: () => server.close(),
    /** Resolves with a way to end the connection. */
    async subscriber() {
      const leave = await joined.promise
      joined = Promise.withResolvers()
      return leave
    },
    show: ({ flashblocks, end }: ProducedBlock) => {
      for (const message of [...flashblocks, end]) hub.broadcast(encodeFrame(message))
    },
    garbage: () => hub.broadcast('{"payload_id": 1}'),
  }
}

const isComplete = (number: number) => (message: FromWriter) =>
  message.type === 'published' && message.complete === number
const isSealed = (number: number) => (message: FromWriter) =>
  message.type === 'sealed' && message.number === number

test('frames become pending, canonical blocks durable; a lost connection and a restart cost nothing', async () => {
  const feed = await startFeed()
  const first = await startThreads()
  first.say({ type: 'connect', feed: feed.url, headers: {} })
  const leave = await feed.subscriber()
  feed.garbage()
  feed.show(blocks[0]!)
  await first.until(isComplete(1))
  first.say({ type: 'sealed', block: blocks[0]!.sealed })
  await first.until(isSealed(1))
  expect(first.heads().canonical).toBe(hex(blocks[0]!.hash))

  leave()
  await feed.subscriber()
  for (const block of blocks.slice(1, 4)) {
    feed.show(block)
    await first.until(isComplete(block.number))
    first.say({ type: 'sealed', block: block.sealed })
    await first.until(isSealed(block.number))
  }
  const keeperTold = await first.stop()
  await feed.close()
  expect(first.told).toContainEqual({ type: 'count', what: 'feed_refused', by: 1 })
  expect(first.told.filter(({ type }) => type === 'halted')).toEqual([])
  expect(keeperTold.filter(({ type }) => type === 'failed')).toEqual([])

  const second = await startThreads()
  expect(second.heads()).toEqual({ canonical: hex(blocks[3]!.hash), pending: 4 })
  second.say({ type: 'sealed', block: blocks[4]!.sealed })
  await second.until(isSealed(5))
  expect(second.heads().canonical).toBe(hex(blocks[4]!.hash))
  await second.stop()
})

test('back-off doubles from 10 ms to 5 s, half of it by chance', () => {
  const attempts = [0, 1, 2, 8, 9, 10, 2_000]
  expect(attempts.map((attempt) => backOffMs(attempt, 1))).toEqual([
    10, 20, 40, 2_560, 5_000, 5_000, 5_000,
  ])
  expect(attempts.map((attempt) => backOffMs(attempt, 0))).toEqual([
    5, 10, 20, 1_280, 2_500, 2_500, 2_500,
  ])
})
