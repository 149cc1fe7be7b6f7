/** The main thread and the writer use feeds with real threads and real WebSockets. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import { afterEach, describe, expect, test } from 'vitest'
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws'
import { encodePacket, socketData } from '../../../engine/flashblocks/codec.ts'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import { checksum } from '../../../engine/primitives/checksum.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeRlp } from '../../../engine/primitives/rlp.ts'
import type { SharedDatabase } from '../../../engine/storage/database/types.ts'
import { connectFeeds } from '../../../workers/feed-client/connect.ts'
import { PIECE_BYTES } from '../../../workers/feed-client/decode.ts'
import { FEED_LIMITS, type FeedLimits, feedLimitsOf } from '../../../workers/feed-client/limits.ts'
import { type FeedEvent, listenToFeeds } from '../../../workers/feed-client/listen.ts'
import { feedName, startFeeds } from '../../../workers/feed-client/start.ts'
import { createReporter } from '../../../workers/observe/reporter.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import { flashblock } from '../../outside/garbage/inputs.ts'

const ends: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

/** Makes a list of received entries, on which a test can wait for more. */
function createList<One>() {
  const all: One[] = []
  const waiting = new Set<() => void>()
  const check = () => {
    for (const one of waiting) one()
  }
  return {
    all,
    push(one: One) {
      all.push(one)
      check()
    },
    /** Checks the waiting conditions after another change. */
    check,
    until: (isThere: (all: readonly One[]) => boolean) =>
      new Promise<readonly One[]>((resolve) => {
        const check = () => {
          if (!isThere(all)) return
          waiting.delete(check)
          resolve(all)
        }
        waiting.add(check)
        check()
      }),
  }
}

async function startServer(
  onSocket: (socket: WebSocket) => void = () => {},
  options: ServerOptions = {},
) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, ...options })
  await once(server, 'listening')
  const sockets = createList<WebSocket>()
  server.on('connection', (socket) => {
    socket.on('error', () => {})
    onSocket(socket)
    sockets.push(socket)
  })
  ends.push(() => {
    for (const socket of server.clients) socket.terminate()
    server.close()
  })
  const port = (server.address() as AddressInfo).port
  return {
    url: `ws://127.0.0.1:${port}/feed?key=secret`,
    sockets: sockets.all,
    onHandshake(onRequest: (path: string, headers: string[]) => void) {
      server.on('headers', (headers, { url = '' }) => onRequest(url, headers))
    },
    socket: async (number = 1) =>
      (await sockets.until(({ length }) => length >= number))[number - 1]!,
  }
}

/**
 * Follows feeds with the writer's end in this thread; packets are taken at once unless the test
 * says otherwise.
 */
function follow(
  urls: readonly string[],
  limits: Partial<FeedLimits> = {},
  onReplace: (limits: Partial<FeedLimits>) => void = () => {},
  database?: SharedDatabase,
) {
  const own = { beatMs: 20, ...limits }
  const channels = urls.map(() => new MessageChannel())
  const events = createList<FeedEvent>()
  const lines = createList<string>()
  const metrics: Record<string, number> = {}
  const add = (name: string, by: number) => {
    metrics[name] = (metrics[name] ?? 0) + by
    lines.check()
  }
  let takesAll = true
  const listening = listenToFeeds(
    channels.map(({ port2 }) => port2),
    (event) => {
      if (event.type === 'packet' && takesAll) listening.taken(event.packet)
      events.push(event)
    },
  )
  const feeds = startFeeds({
    urls,
    writerPorts: channels.map(({ port1 }) => port1),
    newPort() {
      onReplace(own)
      const { port1, port2 } = new MessageChannel()
      listening.add(port2)
      return port1
    },
    blockTimeMs: 100,
    limits: own,
    ...(database === undefined ? {} : { database }),
    onEnded() {},
  })
  const warn = (_: unknown, text?: string) => lines.push(`${text}`)
  const reporter = createReporter({ warn, error: warn })
  const connected = connectFeeds(feeds, {
    log: { info: (_: unknown, text?: string) => lines.push(`${text}`) },
    report: reporter.report,
    metrics: {
      feed: {
        count: (feed, what, by) => add(`${feed} ${what}`, by),
        refused: (feed, field, by) => add(`${feed} refused ${field}`, by),
        values: (feed, values) => {
          for (const [name, value] of Object.entries(values)) metrics[`${feed} ${name}`] = value
          lines.check()
        },
      },
    },
  })
  ends.push(async () => {
    await feeds.stop()
    listening.close()
  })
  const packets = () =>
    events.all.flatMap((event) => (event.type === 'packet' ? [event.packet] : []))
  return {
    feeds,
    lines,
    metrics,
    connected,
    listening,
    events,
    packets,
    until: (isThere: (all: readonly FeedEvent[]) => boolean) => events.until(isThere),
    packetsUntil: async (count: number) => {
      await events.until(() => packets().length >= count)
      return packets()
    },
    takeNone() {
      takesAll = false
    },
  }
}

const end = (number: number): FeedMessage => ({
  type: 'end',
  payloadId: `0x${number.toString(16).padStart(16, '0')}`,
})
const send = (socket: WebSocket, message: FeedMessage) => socket.send(encodePacket(message))

test('the writer gets the messages of a feed with receive times and digests', async () => {
  const server = await startServer()
  const { packetsUntil, until } = follow([server.url])
  const socket = await server.socket()
  const sent = [flashblock(1, 100_000), end(1), flashblock(2, 10)]
  const wire = sent.map((message, at) => encodePacket(message, at === 2 ? 'plain' : 'xlayer'))
  const before = performance.now()
  for (const packet of wire) socket.send(socketData(packet))
  const packets = await packetsUntil(3)
  const after = performance.now()
  expect(packets.map(({ message }) => message)).toEqual(sent)
  expect(packets.map(({ digest }) => digest)).toEqual(wire.map(checksum))
  for (const { receivedAtMs, feed } of packets) {
    expect(feed).toBe(0)
    // All threads share one clock.
    expect(receivedAtMs).toBeGreaterThan(before)
    expect(receivedAtMs).toBeLessThan(after)
  }
  const [first] = await until(({ length }) => length > 0)
  expect(first).toEqual({ type: 'feed', feed: 0, isConnected: true })
})

test('optional fields beside a flashblock do not change it', async () => {
  const server = await startServer()
  const database = await openSmall(join(temporaryDirectory(), 'state'))
  ends.push(() => database.close())
  const bounds = { accessList: { bytes: 1_000, items: 10 } }
  const { packetsUntil, metrics, lines } = follow([server.url], bounds, () => {}, database.share())
  const socket = await server.socket()
  const account = [new Uint8Array(20).fill(1), [], [new Uint8Array(32)], [], [], []]
  const access_list = bytesToHex(encodeRlp([account]))
  const both = { receipts: {}, new_account_balances: { [`0x${'01'.repeat(20)}`]: '0x1' } }
  const beside: readonly object[] = [
    ...[both, {}, { ...both, access_list }, { access_list }, { receipts: {} }, both, {}],
    ...[{ new_account_balances: {} }, { ...both, receipts: null, access_list: null }],
    // The access list is unusable, which is no fault of the flashblock.
    ...[{ receipts: 'none', new_account_balances: [1] }, { access_list: '0xc1' }],
    { access_list: `0x${'00'.repeat(1_001)}` },
  ]
  const sent = beside.map((_, at) => flashblock(at + 1, 10))
  for (const [at, message] of sent.entries()) {
    const json = JSON.parse(encodePacket(message, 'plain').toString())
    socket.send(JSON.stringify({ ...json, metadata: { ...json.metadata, ...beside[at] } }))
  }
  const packets = await packetsUntil(sent.length)
  expect(packets.map(({ message }) => message)).toEqual(sent)
  await lines.until(() => metrics['0 access_lists_too_large'] === 1)
  expect(metrics).toMatchObject({
    '0 access_lists': 2,
    '0 access_lists_malformed': 1,
    // The account and the slot are read once.
    '0 rows_read_ahead': 2,
  })
  expect(Object.keys(metrics).filter((name) => name.includes('refused'))).toEqual([])
})

test('two feeds are numbered, and the end of one leaves the other open', async () => {
  const servers = [await startServer(), await startServer()]
  const { packetsUntil, until, connected, lines } = follow(servers.map(({ url }) => url))
  expect(connected.suspicions().length).toBe(2)
  const [a, b] = [await servers[0]!.socket(), await servers[1]!.socket()]
  send(a, end(1))
  await packetsUntil(1)
  send(b, end(2))
  const two = await packetsUntil(2)
  expect(two.map(({ feed }) => feed)).toEqual([0, 1])
  a.close(1013, 'subscriber limit reached, please try again later')
  await until((all) => all.some((event) => event.type === 'feed' && !event.isConnected))
  send(b, end(3))
  expect((await packetsUntil(3)).at(-1)).toMatchObject({ feed: 1 })
  // The feed reconnects by itself.
  send(await servers[0]!.socket(2), end(4))
  expect((await packetsUntil(4)).at(-1)).toMatchObject({ feed: 0 })
  const said = await lines.until((all) => all.some((line) => line.includes('1013')))
  const host = new URL(servers[0]!.url).host
  expect(said).toContainEqual(
    `a feed has a problem: feed 0 (${host}): lost: closed with 1013 subscriber limit reached, please try again later`,
  )
  expect(said.join()).not.toContain('secret')
})

describe('a peer that buffers its newest frames', () => {
  /**
   * Records the paths of the handshakes; each connection is cut after a frame, and the next one
   * follows.
   */
  async function reconnect(headersOf: (path: string) => readonly string[]) {
    const paths = createList<string>()
    const server = await startServer(() => {})
    server.onHandshake((path, headers) => {
      paths.push(path)
      headers.push(...headersOf(path))
    })
    const { until } = follow([server.url])
    const block = flashblock(7, 10)
    send(await server.socket(), block)
    await until((all) => all.some(({ type }) => type === 'packet'))
    ;(await server.socket()).terminate()
    const isBack = (event: FeedEvent) => event.type === 'feed' && event.isConnected
    const all = await until((events) => events.filter(isBack).length === 2)
    return { paths: paths.all, last: all.filter(isBack).at(-1), payloadId: block.payloadId }
  }
  test('is asked for those after the last received one', async () => {
    const { paths, last, payloadId } = await reconnect((path) => [
      'X-Feed-Held: none',
      ...(path.includes('since') ? ['X-Feed-Resumed: 1'] : []),
    ])
    expect(paths).toEqual(['/feed?key=secret', `/feed?key=secret&since=7%3A0%3A${payloadId}`])
    expect(last).toEqual({ type: 'feed', feed: 0, isConnected: true, isResumed: true })
  })
  test('may have lost some of them', async () => {
    const { last } = await reconnect(() => ['X-Feed-Held: none'])
    expect(last).toEqual({ type: 'feed', feed: 0, isConnected: true })
  })
  test('is asked for none if it does not announce the buffer', async () => {
    const { paths, last } = await reconnect(() => [])
    expect(paths).toEqual(['/feed?key=secret', '/feed?key=secret'])
    expect(last).toEqual({ type: 'feed', feed: 0, isConnected: true })
  })
})

test('refused frames are counted by field, logged once, and the next one arrives', async () => {
  const server = await startServer()
  const { packetsUntil, lines, metrics } = follow([server.url])
  const socket = await server.socket()
  for (const bad of ['{"payload_id":1}', '{"payload_id":2}', '{', '{"OpBuiltPayload":{}}'])
    socket.send(bad)
  // The text message is invalid UTF-8, for WebSocket too.
  socket.send(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), { binary: false })
  send(socket, end(1))
  await packetsUntil(1)
  await lines.until(() => metrics['0 refused utf8'] === 1)
  expect(metrics).toMatchObject({
    '0 refused payload_id': 2,
    '0 refused json': 1,
    '0 refused utf8': 1,
    '0 foreign': 1,
    '0 connects': 1,
  })
  expect(lines.all.filter((line) => line.includes('refused'))).toEqual([
    expect.stringMatching(/a frame is refused: payload_id: expected 0x and 8 bytes, got 1$/),
  ])
})

test('a message that is too long ends its connection, and the next one works', async () => {
  const server = await startServer()
  const { packetsUntil, lines, metrics } = follow([server.url], {
    packet: { bytes: 1_000, depth: 64, values: 1_000 },
  })
  ;(await server.socket()).send(Buffer.alloc(1_001))
  send(await server.socket(2), end(1))
  expect((await packetsUntil(1)).length).toBe(1)
  await lines.until((all) => all.some((line) => /Max payload size exceeded/.test(line)))
  await lines.until(() => metrics['0 refused too-large'] === 1)
})

describe('a connected peer', () => {
  const times = { pingMs: 20, pongMs: 200 }
  test('that answers pings need not send anything else', async () => {
    const pings = createList<number>()
    const server = await startServer((socket) => {
      socket.on('ping', () => pings.push(1))
    })
    const { events } = follow([server.url], times)
    await pings.until(({ length }) => length > 20)
    expect(events.all).toEqual([{ type: 'feed', feed: 0, isConnected: true }])
  })
  test('that answers no pings is disconnected', async () => {
    const server = await startServer(() => {}, { autoPong: false })
    const { lines } = follow([server.url], times)
    await server.socket(2)
    await lines.until((all) => all.some((line) => line.includes('no answer to pings for 200 ms')))
  })
  test('that does not answer the handshake is disconnected', async () => {
    const server = createServer()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const sockets = createList<Socket>()
    server.on('connection', (socket) => {
      socket.on('error', () => {})
      sockets.push(socket)
    })
    ends.push(() => {
      for (const socket of sockets.all) socket.destroy()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const { lines } = follow([`ws://127.0.0.1:${port}`], { connectMs: 50 })
    await sockets.until(({ length }) => length > 1)
    await lines.until((all) => all.some((line) => line.includes('no connection within 50 ms')))
  })
})

test('a flood closes the connection for its backoff', async () => {
  const server = await startServer((socket) => {
    for (let number = 0; number < 600; number++) send(socket, end(number))
  })
  const frames = { perSecond: 10, burst: 50 }
  const startedMs = performance.now()
  const { until, packets, lines, connected } = follow([server.url], {
    frames,
    floodBackoffMs: 60_000,
  })
  await until((all) => all.some((event) => event.type === 'feed' && !event.isConnected))
  await lines.until((all) => all.some((line) => line.includes('more than 10 frames a second')))
  await lines.until(() => connected.statuses()[0]?.isConnected === false)
  const seconds = (performance.now() - startedMs) / 1_000
  expect(packets().length).toBeLessThanOrEqual(50 + 10 * seconds)
  expect(server.sockets.length).toBe(1)
  expect(connected.suspicions()).toMatchObject([{ outside: 'feed 0 is not connected' }])
})

describe('credit', () => {
  test('pauses the feed while the writer takes nothing, and loses no frames', async () => {
    const server = await startServer()
    const feed = follow([server.url], { heldFrames: 8 })
    feed.takeNone()
    const socket = await server.socket()
    const count = 100
    for (let number = 0; number < count; number++) send(socket, flashblock(number, 5_000))
    await feed.packetsUntil(8)
    await feed.lines.until(() => feed.metrics['0 held_frames'] === 8)
    expect(feed.packets().length).toBe(8)
    // The newest taken packet stands for those before it.
    for (let taken = 0; feed.packets().length < count; ) {
      feed.listening.taken(feed.packets().at(-1)!)
      taken = feed.packets().length
      await feed.packetsUntil(Math.min(count, taken + 8))
      expect(feed.packets().length).toBeLessThanOrEqual(taken + 8)
    }
    expect(feed.packets().map(({ message }) => message.payloadId)).toEqual(
      Array.from({ length: count }, (_, number) => flashblock(number, 1).payloadId),
    )
  })
})

test('a silent feed reconnects while the canonical head moves', async () => {
  const server = await startServer()
  const { feeds, until, lines } = follow([server.url], { silentMs: 300, pingMs: 50 })
  await until(({ length }) => length > 0)
  const blocks = setInterval(() => feeds.canonicalMoved(), 50)
  ends.push(() => clearInterval(blocks))
  await server.socket(2)
  await lines.until((all) => all.some((line) => /no frame for 0\.\d s while the chain/.test(line)))
})

test('a feed without a listener is retried until it is stopped', async () => {
  const { feeds, lines, events, connected } = follow(['ws://127.0.0.1:1/'])
  await lines.until((all) =>
    all.some((line) => line.includes('not connected: nothing listens there (ECONNREFUSED)')),
  )
  expect(connected.suspicions()).toEqual([
    { text: 'feed 0 (127.0.0.1:1) is not connected', outside: 'feed 0 is not connected' },
  ])
  await feeds.stop()
  expect(events.all).toEqual([])
})

test('the writer is notified when a feed thread ends', async () => {
  const server = await startServer()
  const { feeds, until } = follow([server.url])
  await until(({ length }) => length > 0)
  await feeds.stop()
  const all = await until(({ length }) => length > 1)
  expect(all.at(-1)).toEqual({ type: 'feed', feed: 0, isConnected: false })
})

describe('the URL of a feed', () => {
  const cases: [url: string, name: string | RegExp][] = [
    ['wss://xlayerws.okx.com/flashblocks', 'xlayerws.okx.com'],
    ['ws://user:password@host:8546/ws/key?x=1', 'host:8546'],
    ['https://xlayerws.okx.com/flashblocks', /expected ws:\/\/ or wss:\/\//],
    ['host', /expected ws:\/\/ or wss:\/\//],
    ['ws://host/#fragment', /no fragment/],
  ]
  test.each(cases)('is named or refused: %s', (url, name) => {
    if (typeof name === 'string') expect(feedName(url)).toBe(name)
    else expect(() => feedName(url)).toThrow(name)
  })
  test('is one of at most eight', () => {
    const start = (urls: string[]) =>
      startFeeds({
        urls,
        writerPorts: [],
        blockTimeMs: 1_000,
        onEnded() {},
        newPort: () => new MessageChannel().port1,
      })
    expect(() => start(new Array(9).fill('ws://host'))).toThrow('9 feeds: at most 8')
  })
})

test('a failed thread is replaced with increasing delays, and its feed continues', async () => {
  const server = await startServer((socket) =>
    socket.send(socketData(encodePacket(flashblock(1, 10)))),
  )
  // Without the limits of a packet the thread cannot start.
  const broken = { packet: undefined as never, minReplaceMs: 20, maxReplaceMs: 40 }
  let replaced = 0
  const feed = follow([server.url], broken, (limits) => {
    if (++replaced === 3) Object.assign(limits, { packet: FEED_LIMITS.packet })
  })
  await feed.packetsUntil(1)
  expect(replaced).toBe(3)
  const failures = feed.lines.all.filter((line) =>
    /the thread of a feed failed, and is replaced/.test(line),
  )
  expect(failures.length).toBe(3)
  await feed.lines.until(() => feed.connected.suspicions().length === 0)
})

test('a replacement thread resumes once where the failed one stopped', async () => {
  const paths = createList<string>()
  const server = await startServer()
  server.onHandshake((path, headers) => {
    paths.push(path)
    headers.push('X-Feed-Held: none', ...(path.includes('since') ? ['X-Feed-Resumed: 1'] : []))
  })
  // Inflating in pieces ends the thread with this value, because it adds a number to a bigint.
  const packetMs = 1n as unknown as number
  const long = Buffer.alloc(PIECE_BYTES + 1, 0x1e)
  const feed = follow([server.url], { packetMs, minReplaceMs: 20, maxReplaceMs: 40 })
  const block = flashblock(7, 10)
  send(await server.socket(), block)
  await feed.packetsUntil(1)
  for (const number of [1, 2]) (await server.socket(number)).send(long)
  await server.socket(3)
  const since = `since=7%3A0%3A${block.payloadId}`
  const plain = '/feed?key=secret'
  expect(paths.all).toEqual([plain, `${plain}&${since}`, plain])
  const isBack = (event: FeedEvent) => event.type === 'feed' && event.isConnected
  const all = await feed.until((events) => events.filter(isBack).length === 3)
  const isConnected = { type: 'feed', feed: 0, isConnected: true }
  expect(all.filter(isBack)).toEqual([
    isConnected,
    { ...isConnected, isResumed: true },
    isConnected,
  ])
})

test('the limits of the flags reach the thread', () => {
  const { wireBytes, frames, decodeMs } = feedLimitsOf({ feedWireBytes: 10, feedBurst: 7 })
  expect([wireBytes, frames, decodeMs]).toEqual([
    { perSecond: 10, burst: 20 },
    { perSecond: 200, burst: 7 },
    { perSecond: 500, burst: 2_000 },
  ])
})
