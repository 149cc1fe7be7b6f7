/**
 * The enriched feed runs over real sockets, from a real writer to a client that knows only the
 * documented form.
 */
import { once } from 'node:events'
import { brotliDecompressSync } from 'node:zlib'
import { afterEach, beforeAll, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { bigintToBytes, concatBytes } from '../../../engine/primitives/words.ts'
import { type Changes, packChanges } from '../../../engine/sources/writer/changes.ts'
import { readAccount, readSlot } from '../../../engine/state/read.ts'
import { EnrichedFeed } from '../../../rpc/feed-server/enriched.ts'
import { createFeedHub, type FeedHub, type FeedLimits } from '../../../rpc/feed-server/hub.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { EnrichedClient, type EnrichedJson } from '../../fixtures/enriched-client.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { openSocket, startServer, type TestSocket } from '../../fixtures/sockets.ts'
import { createBranches, publishBlock, seal } from '../../fixtures/writer-branches.ts'
import { hex, WriterWorld } from '../../fixtures/writer-world.ts'

const RUN = '0x00000000000000aa'
let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
beforeAll(async () => {
  ;({ a, b } = await createBranches())
})
const started: Server[] = []
afterEach(async () => {
  for (const server of started.splice(0)) await server.close()
})

/** Starts with block 1 canonical. `emitChanges` sends the writer's later changes to the readers. */
async function start(options: Partial<FeedLimits> = {}) {
  const limits = {
    feedSubscribers: 4,
    feedQueueBytes: 8_000_000,
    feedHeldFrames: 100,
    feedHeldBytes: 1_000_000,
    feedEnrichedBytes: 1_000_000,
    ...options,
  }
  const hub = createFeedHub(limits, { run: RUN, access: () => undefined })
  const { server, port } = await startServer({ feed: hub.handle, limits })
  started.push(server)
  const world = new WriterWorld({ emitsChanges: true })
  const emitChanges = () => {
    const all = takeChanges(world)
    for (const changes of all) hub.changed(changes)
    return all.length
  }
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await publishBlock(world, a[0]!)
  await seal(world, a[0]!)
  emitChanges()
  return { hub, world, emitChanges, url: `ws://127.0.0.1:${port}/feed?enrich=1` }
}
function takeChanges(world: WriterWorld): readonly Changes[] {
  const all = world.emitted.flatMap((effect) =>
    effect.type === 'changes' ? [packChanges(effect.changes)] : [],
  )
  world.emitted = []
  return all
}
const next = async (socket: TestSocket): Promise<EnrichedJson> => JSON.parse(await socket.next())
async function applyNext(client: EnrichedClient, socket: TestSocket, count: number) {
  for (let at = 0; at < count; at++) client.apply(await next(socket))
}
const tipOf = ({ blocks }: EnrichedClient) =>
  blocks.at(-1) && [blocks.at(-1)!.number, blocks.at(-1)!.parts]

test('a reader gets a snapshot, then flashblocks, final header and canonical move', async () => {
  const { world, emitChanges, url } = await start()
  await world.packet(a[1]!.flashblocks[0]!)
  await world.packet(a[1]!.flashblocks[1]!)
  emitChanges()
  const socket = await openSocket(url)
  const client = new EnrichedClient()
  await applyNext(client, socket, 1)
  expect(client.base).toMatchObject({ number: 1, hash: hex(a[0]!.hash) })
  expect(tipOf(client)).toEqual([2, 2])
  await world.packet(a[1]!.flashblocks[2]!)
  await world.settle()
  await applyNext(client, socket, emitChanges())
  expect(client.heads).toMatchObject({
    canonical: { number: 1 },
    complete: { number: 2, hash: hex(a[1]!.hash) },
    pending: { number: 2, index: null },
  })
  await seal(world, a[1]!)
  await applyNext(client, socket, emitChanges())
  expect(client.heads).toMatchObject({ canonical: { number: 2, hash: hex(a[1]!.hash) } })
  expect(client.blocks[0]!.receipts.length).toBe(client.blocks[0]!.transactions.length)
})

test('a reader gets removals for another payload and another canonical block', async () => {
  const { world, emitChanges, url } = await start()
  const socket = await openSocket(url)
  const client = new EnrichedClient()
  await applyNext(client, socket, 1)
  await publishBlock(world, a[1]!)
  await world.packet(a[2]!.flashblocks[0]!)
  await applyNext(client, socket, emitChanges())
  expect(tipOf(client)).toEqual([3, 1])
  await world.packet(b[0]!.flashblocks[0]!)
  await applyNext(client, socket, emitChanges())
  expect(client.removedNow).toBe(2)
  expect([tipOf(client), client.blocks[0]!.payloadId]).toEqual([
    [2, 1],
    b[0]!.flashblocks[0]!.payloadId,
  ])
  await seal(world, a[1]!)
  await world.settle({ ticks: true })
  await applyNext(client, socket, emitChanges())
  expect(client.heads).toMatchObject({ canonical: { number: 2, hash: hex(a[1]!.hash) } })
  expect([tipOf(client), client.blocks[0]!.payloadId]).toEqual([[2, 1], null])
})

test('each flashblock has the hash of the previous values that it changes', async () => {
  const { world, emitChanges, url } = await start()
  await publishBlock(world, a[1]!)
  emitChanges()
  const socket = await openSocket(url)
  const { flashblocks } = await next(socket)
  expect(flashblocks.map(({ accounts }) => accounts.length > 2)).toEqual([true, true, true])
  const { state } = a[0]!
  for (const { accounts, before } of flashblocks) {
    const values = accounts
      .toSorted((x, y) => (x.address < y.address ? -1 : 1))
      .flatMap(({ address, slots }) => {
        const who = hexToBytes(address)
        const account = readAccount(state, who)
        return [
          account === undefined
            ? new Uint8Array(72)
            : concatBytes(
                bigintToBytes(account.nonce, 8),
                bigintToBytes(account.balance, 32),
                account.codeHash,
              ),
          ...slots
            .map(([key]) => key)
            .toSorted()
            .map((key) => readSlot(state, who, hexToBytes(key))),
        ]
      })
    expect(before).toBe(hex(keccak256(concatBytes(...values))))
  }
})

const messageIdOf = (block: ProducedBlock, index: number) =>
  `${block.number}:${index}:${block.flashblocks[0]!.payloadId}`

test('a reader with since resumes in the same run, and otherwise gets a new snapshot', async () => {
  const { world, emitChanges, url } = await start()
  const first = await openSocket(url)
  const client = new EnrichedClient()
  await applyNext(client, first, 1)
  const started = client.seq
  await publishBlock(world, a[1]!)
  await applyNext(client, first, emitChanges())
  first.close()
  await seal(world, a[1]!)
  await publishBlock(world, a[2]!)
  const missed = emitChanges()
  const reopened = await openSocket(`${url}&since=${messageIdOf(a[1]!, 2)}&run=${RUN}`)
  // The final header came after the flashblock; it is repeated, and the client ignores it.
  await applyNext(client, reopened, missed + 1)
  expect([tipOf(client), client.applied]).toEqual([[3, 3], client.seq - started + 1])
  for (const query of [`since=${messageIdOf(a[1]!, 2)}&run=0x00000000000000bb`, 'since=1:7']) {
    const socket = await openSocket(`${url}&${query}`)
    expect(await next(socket)).toHaveProperty('FlashnodeGap')
    expect((await next(socket)).snapshot).toBe(true)
    socket.close()
  }
})

test('a hub that takes over from another one sends the same messages', async () => {
  const { hub, world, url } = await start()
  await publishBlock(world, a[1]!)
  await world.packet(a[2]!.flashblocks[0]!)
  for (const changes of takeChanges(world)) hub.changed(changes)
  hub.broadcast('packet', { number: 3, index: 0, payloadId: '0x0000000000000003' })
  const limits = {
    feedSubscribers: 4,
    feedQueueBytes: 8_000_000,
    feedHeldFrames: 100,
    feedHeldBytes: 1_000_000,
    feedEnrichedBytes: 1_000_000,
  }
  const other = createFeedHub(limits, {
    run: RUN,
    access: () => undefined,
    seed: structuredClone(hub.seed()),
  })
  const { server, port } = await startServer({ feed: other.handle, limits })
  started.push(server)
  const urls = [url, `ws://127.0.0.1:${port}/feed?enrich=1`]
  const sockets = await Promise.all(urls.map((one) => openSocket(one)))
  expect(await sockets[1]!.next()).toBe(await sockets[0]!.next())
  await world.packet(a[2]!.flashblocks[1]!)
  for (const changes of takeChanges(world)) for (const one of [hub, other]) one.changed(changes)
  expect(await sockets[1]!.next()).toBe(await sockets[0]!.next())
  const plain = await openSocket(`ws://127.0.0.1:${port}/feed?since=2:2`)
  expect(await next(plain)).toHaveProperty('FlashnodeGap')
  expect(await plain.next()).toBe('packet')
})

test('each message is encoded once for all readers, and not at all without readers', async () => {
  const { hub, world, emitChanges, url } = await start()
  const sent: unknown[] = []
  const watched: FeedHub['handle'] = (query, visitor) => {
    const feedSession = hub.handle(query, visitor)
    if ('wrong' in feedSession) return feedSession
    const open: typeof feedSession.open = (connection) =>
      feedSession.open({ ...connection, send: (data) => sent.push(data) > 0 })
    return { ...feedSession, open }
  }
  const { server, port } = await startServer({ feed: watched })
  started.push(server)
  const readers = await Promise.all(
    [1, 2].map(() => openSocket(`ws://127.0.0.1:${port}/feed?enrich=1`)),
  )
  expect(sent[0]).toBe(sent[1])
  await publishBlock(world, a[1]!)
  const count = emitChanges()
  expect(sent.length).toBe(2 + 2 * count)
  for (let at = 2; at < sent.length; at += 2) expect(sent[at]).toBe(sent[at + 1])
  for (const reader of readers) reader.close()
  // Another server of the same feed is served too.
  expect((await next(await openSocket(url))).snapshot).toBe(true)
})

/** Opens a socket that collects bytes. */
async function openBytes(url: string) {
  const socket = new WebSocket(url, { perMessageDeflate: false })
  const all: Bytes[] = []
  const came = Promise.withResolvers<void>()
  let wanted = Number.POSITIVE_INFINITY
  const check = () => all.length >= wanted && came.resolve()
  socket.on('message', (data: Buffer) => {
    all.push(data)
    check()
  })
  await once(socket, 'open')
  return {
    async first(count: number) {
      wanted = count
      check()
      await came.promise
      socket.terminate()
      return all.slice(0, count)
    },
  }
}

test('compressed messages equal the plain ones, in the same order', async () => {
  const { world, emitChanges, url } = await start()
  const [plain, compressed] = [await openBytes(url), await openBytes(`${url}&compress=1`)]
  await publishBlock(world, a[1]!)
  await seal(world, a[1]!)
  const count = emitChanges() + 1
  expect(count).toBeGreaterThan(3)
  const [as, packed] = [await plain.first(count), await compressed.first(count)]
  expect(packed.map((bytes) => brotliDecompressSync(bytes.subarray(1)))).toEqual(as)
  for (const [at, bytes] of packed.entries()) {
    expect(bytes[0]).toBe(0x1e)
    expect(bytes.length).toBeLessThan(as[at]!.length)
  }
  const reopened = await openBytes(`${url}&compress=1&since=${messageIdOf(a[1]!, 2)}`)
  expect(await reopened.first(2)).toEqual(packed.slice(-2))
})

test('a message is compressed once, and a long one is not compressed', () => {
  const feed = new EnrichedFeed(RUN)
  const number = 1
  const block = { number, hash: '0x'.padEnd(66, '1'), payloadId: undefined }
  const heads = { canonical: block, complete: block, pending: { ...block, index: undefined } }
  const removedOf = (count: number) => ({ above: 1, blocks: new Array(count).fill(block) })
  const take = (count: number) => {
    const { message } = feed.take({
      isStart: true,
      removed: removedOf(count),
      headers: [],
      flashblocks: [],
      heads: { ...heads, safe: 0, finalized: 0 },
    })
    expect(message.compressed()).toBe(message.compressed())
    return [message.data().length, message.compressed().length] as const
  }
  const [short, shorter] = take(9_000)
  expect([short > 900_000, short < 1 << 20, shorter < short / 2]).toEqual([true, true, true])
  const [long, same] = take(12_000)
  expect([long > 1 << 20, same]).toEqual([true, long])
})

test('the replay buffer is limited in bytes', async () => {
  const { world, emitChanges, url } = await start({ feedEnrichedBytes: 20_000 })
  for (const block of a.slice(1, 5)) {
    await publishBlock(world, block)
    await seal(world, block)
  }
  emitChanges()
  const old = await openSocket(`${url}&since=${messageIdOf(a[1]!, 0)}`)
  expect(await next(old)).toHaveProperty('FlashnodeGap')
  const recent = await openSocket(`${url}&since=${messageIdOf(a[4]!, 2)}`)
  expect((await next(recent)).snapshot).toBe(false)
})
