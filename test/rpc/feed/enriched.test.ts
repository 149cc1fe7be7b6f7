/** The enriched feed over real sockets: from a real writer to a client that knows its documented form alone. */
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
import { EnrichedFeed } from '../../../rpc/feed/enriched.ts'
import { createFeedHub, type FeedHub, type FeedLimits } from '../../../rpc/feed/hub.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { EnrichedClient, type EnrichedJson } from '../../fixtures/enriched-client.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { openSocket, startServer, type TestSocket } from '../../fixtures/sockets.ts'
import { createBranches, seal, show } from '../../fixtures/writer-branches.ts'
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

/** Block 1 is canonical. `tell`: what the writer has said since goes to the readers. */
async function start(options: Partial<FeedLimits> = {}) {
  const limits = {
    ...{ feedSubscribers: 4, feedQueueBytes: 8_000_000, feedHeldFrames: 100 },
    ...{ feedHeldBytes: 1_000_000, feedEnrichedBytes: 1_000_000, ...options },
  }
  const hub = createFeedHub(limits, { run: RUN, gate: () => undefined })
  const { server, port } = await startServer({ feed: hub.door, limits })
  started.push(server)
  const world = new WriterWorld({ tellsChanges: true })
  const tell = () => {
    const all = takeChanges(world)
    for (const changes of all) hub.changed(changes)
    return all.length
  }
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await show(world, a[0]!)
  await seal(world, a[0]!)
  tell()
  return { hub, world, tell, url: `ws://127.0.0.1:${port}/feed?enrich=1` }
}
function takeChanges(world: WriterWorld): readonly Changes[] {
  const all = world.told.flatMap((effect) =>
    effect.type === 'changes' ? [packChanges(effect.changes)] : [],
  )
  world.told = []
  return all
}
const next = async (socket: TestSocket): Promise<EnrichedJson> => JSON.parse(await socket.next())
async function applyNext(client: EnrichedClient, socket: TestSocket, count: number) {
  for (let at = 0; at < count; at++) client.apply(await next(socket))
}
const tipOf = ({ blocks }: EnrichedClient) =>
  blocks.at(-1) && [blocks.at(-1)!.number, blocks.at(-1)!.parts]

test('a snapshot, then each record: flashblocks, the final header, the canonical hand over', async () => {
  const { world, tell, url } = await start()
  await world.packet(a[1]!.flashblocks[0]!)
  await world.packet(a[1]!.flashblocks[1]!)
  tell()
  const socket = await openSocket(url)
  const client = new EnrichedClient()
  await applyNext(client, socket, 1)
  expect(client.base).toMatchObject({ number: 1, hash: hex(a[0]!.hash) })
  expect(tipOf(client)).toEqual([2, 2])
  await world.packet(a[1]!.flashblocks[2]!)
  await world.settle()
  await applyNext(client, socket, tell())
  expect(client.heads).toMatchObject({
    canonical: { number: 1 },
    complete: { number: 2, hash: hex(a[1]!.hash) },
    pending: { number: 2, index: null },
  })
  await seal(world, a[1]!)
  await applyNext(client, socket, tell())
  expect(client.heads).toMatchObject({ canonical: { number: 2, hash: hex(a[1]!.hash) } })
  expect(client.blocks[0]!.receipts.length).toBe(client.blocks[0]!.transactions.length)
})

test('another payload, and a canonical block that is neither: what was shown is removed', async () => {
  const { world, tell, url } = await start()
  const socket = await openSocket(url)
  const client = new EnrichedClient()
  await applyNext(client, socket, 1)
  await show(world, a[1]!)
  await world.packet(a[2]!.flashblocks[0]!)
  await applyNext(client, socket, tell())
  expect(tipOf(client)).toEqual([3, 1])
  await world.packet(b[0]!.flashblocks[0]!)
  await applyNext(client, socket, tell())
  expect(client.removedNow).toBe(2)
  expect([tipOf(client), client.blocks[0]!.payloadId]).toEqual([
    [2, 1],
    b[0]!.flashblocks[0]!.payloadId,
  ])
  await seal(world, a[1]!)
  await world.settle({ ticks: true })
  await applyNext(client, socket, tell())
  expect(client.heads).toMatchObject({ canonical: { number: 2, hash: hex(a[1]!.hash) } })
  expect([tipOf(client), client.blocks[0]!.payloadId]).toEqual([[2, 1], null])
})

test('each flashblock names the values of the parent block that it has changed', async () => {
  const { world, tell, url } = await start()
  await show(world, a[1]!)
  tell()
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

const placeOf = (block: ProducedBlock, index: number) =>
  `${block.number}:${index}:${block.flashblocks[0]!.payloadId}`

test('since goes on in the same run, and begins anew in another one or from what is gone', async () => {
  const { world, tell, url } = await start()
  const first = await openSocket(url)
  const client = new EnrichedClient()
  await applyNext(client, first, 1)
  const begun = client.seq
  await show(world, a[1]!)
  await applyNext(client, first, tell())
  first.close()
  await seal(world, a[1]!)
  await show(world, a[2]!)
  const missed = tell()
  const again = await openSocket(`${url}&since=${placeOf(a[1]!, 2)}&run=${RUN}`)
  // The final header came after the flashblock: it comes once more, and is passed over.
  await applyNext(client, again, missed + 1)
  expect([tipOf(client), client.applied]).toEqual([[3, 3], client.seq - begun + 1])
  for (const query of [`since=${placeOf(a[1]!, 2)}&run=0x00000000000000bb`, 'since=1:7']) {
    const socket = await openSocket(`${url}&${query}`)
    expect(await next(socket)).toHaveProperty('FlashnodeGap')
    expect((await next(socket)).snapshot).toBe(true)
    socket.close()
  }
})

test('a hub that goes on from another one sends what that sends', async () => {
  const { hub, world, url } = await start()
  await show(world, a[1]!)
  await world.packet(a[2]!.flashblocks[0]!)
  for (const changes of takeChanges(world)) hub.changed(changes)
  hub.broadcast('packet', { number: 3, index: 0, payloadId: '0x0000000000000003' })
  const limits = {
    ...{ feedSubscribers: 4, feedQueueBytes: 8_000_000, feedHeldFrames: 100 },
    ...{ feedHeldBytes: 1_000_000, feedEnrichedBytes: 1_000_000 },
  }
  const other = createFeedHub(limits, {
    ...{ run: RUN, gate: () => undefined },
    seed: structuredClone(hub.seed()),
  })
  const { server, port } = await startServer({ feed: other.door, limits })
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

test('each message is encoded once for all, and when nobody reads not at all', async () => {
  const { hub, world, tell, url } = await start()
  const sent: unknown[] = []
  const watched: FeedHub['door'] = (query, visitor) => {
    const visit = hub.door(query, visitor)
    if ('wrong' in visit) return visit
    const open: typeof visit.open = (connection) =>
      visit.open({ ...connection, send: (data) => sent.push(data) > 0 })
    return { ...visit, open }
  }
  const { server, port } = await startServer({ feed: watched })
  started.push(server)
  const readers = await Promise.all(
    [1, 2].map(() => openSocket(`ws://127.0.0.1:${port}/feed?enrich=1`)),
  )
  expect(sent[0]).toBe(sent[1])
  await show(world, a[1]!)
  const count = tell()
  expect(sent.length).toBe(2 + 2 * count)
  for (let at = 2; at < sent.length; at += 2) expect(sent[at]).toBe(sent[at + 1])
  for (const reader of readers) reader.close()
  // Another server of the same feed is served too.
  expect((await next(await openSocket(url))).snapshot).toBe(true)
})

/** What comes, as bytes. */
async function openBytes(url: string) {
  const socket = new WebSocket(url, { perMessageDeflate: false })
  const all: Bytes[] = []
  const came = Promise.withResolvers<void>()
  let wanted = Number.POSITIVE_INFINITY
  const look = () => all.length >= wanted && came.resolve()
  socket.on('message', (data: Buffer) => {
    all.push(data)
    look()
  })
  await once(socket, 'open')
  return {
    async first(count: number) {
      wanted = count
      look()
      await came.promise
      socket.terminate()
      return all.slice(0, count)
    },
  }
}

test('whoever wants it has them compressed: the same messages in the same order', async () => {
  const { world, tell, url } = await start()
  const [plain, compressed] = [await openBytes(url), await openBytes(`${url}&compress=1`)]
  await show(world, a[1]!)
  await seal(world, a[1]!)
  const count = tell() + 1
  expect(count).toBeGreaterThan(3)
  const [as, packed] = [await plain.first(count), await compressed.first(count)]
  expect(packed.map((bytes) => brotliDecompressSync(bytes.subarray(1)))).toEqual(as)
  for (const [at, bytes] of packed.entries()) {
    expect(bytes[0]).toBe(0x1e)
    expect(bytes.length).toBeLessThan(as[at]!.length)
  }
  const again = await openBytes(`${url}&compress=1&since=${placeOf(a[1]!, 2)}`)
  expect(await again.first(2)).toEqual(packed.slice(-2))
})

test('a message is compressed once, and a long one not', () => {
  const feed = new EnrichedFeed(RUN)
  const number = 1
  const block = { number, hash: '0x'.padEnd(66, '1'), payloadId: undefined }
  const heads = { canonical: block, complete: block, pending: { ...block, index: undefined } }
  const removedOf = (count: number) => ({ above: 1, blocks: new Array(count).fill(block) })
  const take = (count: number) => {
    const { message } = feed.take({
      ...{ isBeginning: true, removed: removedOf(count), headers: [], flashblocks: [] },
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

test('what is held is bounded in bytes', async () => {
  const { world, tell, url } = await start({ feedEnrichedBytes: 20_000 })
  for (const block of a.slice(1, 5)) {
    await show(world, block)
    await seal(world, block)
  }
  tell()
  const old = await openSocket(`${url}&since=${placeOf(a[1]!, 0)}`)
  expect(await next(old)).toHaveProperty('FlashnodeGap')
  const recent = await openSocket(`${url}&since=${placeOf(a[4]!, 2)}`)
  expect((await next(recent)).snapshot).toBe(false)
})
