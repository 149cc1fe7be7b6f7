/** WebSockets have messages, concurrency limits, and peers that are silent or slow. */
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import type { Responder } from '../../../rpc/core/exchange.ts'
import type { Server } from '../../../rpc/http/server.ts'
import type { Connection } from '../../../rpc/http/websocket.ts'
import { openRaw, openSocket, startServer, type TestServerOptions } from '../../fixtures/sockets.ts'

const started: Server[] = []
afterEach(async () => {
  for (const server of started.splice(0)) await server.close()
})
async function start(options: TestServerOptions = {}) {
  const { server, port } = await startServer(options)
  started.push(server)
  return { server, port, url: `ws://127.0.0.1:${port}` }
}

const handshake = (path: string) =>
  `GET ${path} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n`

test('a request must have exactly one host header', async () => {
  const { port } = await start()
  const request = handshake('/')
  const post = `POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n1`
  for (const [text, status] of [
    [request, 101],
    [post, 200],
    [request.replace('\r\n', '\r\nHost: localhost\r\n'), 400],
    [post.replace('\r\n', '\r\nHost: localhost\r\n'), 400],
    [post.replace('\r\n', '\r\nhOST: evil.example\r\n'), 400],
    [post.replace('POST', 'PUT').replace('\r\n', '\r\nHost: localhost\r\n'), 400],
    [post.replace('host: localhost\r\n', ''), 400],
    [request.replace('host: localhost\r\n', ''), 400],
  ] as const) {
    const socket = await openRaw(port)
    const response = once(socket, 'data') as Promise<[Buffer]>
    socket.write(text)
    expect(String((await response)[0]).split(' ', 2)[1], text).toBe(String(status))
    socket.destroy()
  }
})

describe('WebSocket messages', () => {
  test('get responses on both endpoints', async () => {
    const { url } = await start()
    for (const [path, endpoint] of [
      ['/', 'standard'],
      ['/flashblocks', 'flashblocks'],
    ]) {
      const socket = await openSocket(`${url}${path}`)
      socket.send('{"ü":1}')
      expect(JSON.parse(await socket.next())).toEqual({
        body: '{"ü":1}',
        address: '127.0.0.1',
        endpoint,
      })
      socket.close()
    }
  })

  test('can notify only their own client, also before the response', async () => {
    const respond: Responder = async (body, client) => {
      client.notify?.([[Buffer.from(`"for ${body}"`)]])
      return { text: undefined, status: 200, headers: {} }
    }
    const { url } = await start({ respond })
    const [first, second] = [await openSocket(url), await openSocket(url)]
    first.send('1')
    second.send('2')
    expect([await first.next(), await second.next()]).toEqual(['"for 1"', '"for 2"'])
  })

  test('wait above the limit in flight, and none is lost', async () => {
    let running = 0
    let max = 0
    const respond: Responder = async (body) => {
      max = Math.max(max, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
      return { text: body, status: 200, headers: {} }
    }
    const { url } = await start({ respond, limits: { messagesInFlight: 4 } })
    const socket = await openSocket(url)
    const long = 'x'.repeat(100_000)
    for (let index = 0; index < 40; index++) socket.send(`${index} ${long}`)
    const responses = []
    for (let index = 0; index < 40; index++)
      responses.push(Number.parseInt(await socket.next(), 10))
    expect(responses.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, i) => i))
    expect(max).toBeLessThan(10)
  })
})

describe('a WebSocket handshake', () => {
  const cases: [name: string, path: string, headers: Record<string, string>, status: number][] = [
    ['an unknown path', '/foo', {}, 404],
    ['a feed that is not served', '/feed', {}, 404],
    ['a DNS name that points to this machine', '/', { host: 'evil.example' }, 403],
    ['an origin that is not allowed', '/', { origin: 'https://evil.example' }, 403],
  ]
  test.each(cases)('is refused for %s', async (_, path, headers, status) => {
    const { url } = await start({ cors: ['https://app.example'] })
    await expect(openSocket(`${url}${path}`, headers)).rejects.toThrow(`${status}`)
  })

  test('is accepted with an empty host, which no browser sends', async () => {
    const { port } = await start()
    const raw = await openRaw(port)
    raw.write(handshake('/').replace(/host: [^\r]*/i, 'host: '))
    const [response] = (await once(raw, 'data')) as [Buffer]
    expect(String(response)).toMatch(/^HTTP\/1.1 101 /)
    raw.destroy()
  })

  test('is refused above the limit of its address, until another socket closes', async () => {
    const { url, server } = await start({ limits: { connectionsPerClient: 2 } })
    const first = await openSocket(url)
    await openSocket(url)
    await expect(openSocket(url)).rejects.toThrow('429')
    first.close()
    await first.closed
    await expect.poll(() => server.webSockets).toBe(1)
    await openSocket(url)
  })

  test('is refused above the total limit, which includes half-open sockets', async () => {
    const { url, port } = await start({ limits: { connectionsTotal: 1 } })
    const raw = await openRaw(port)
    raw.write(handshake('/'))
    await once(raw, 'data')
    await expect(openSocket(url)).rejects.toThrow('503')
    raw.destroy()
  })

  test('is refused while the node starts, except for the feed', async () => {
    const { url, server } = await start({
      feed: () => ({ headers: [], replayBytes: 0, open: () => ({ onMessage() {} }) }),
    })
    server.setPaused('starting')
    await expect(openSocket(url)).rejects.toThrow('503')
    const feed = await openSocket(`${url}/feed`)
    feed.close()
  })
})

describe('a WebSocket', () => {
  test('is closed with 1009 for a message above the limit', async () => {
    const { url } = await start({ limits: { bodyBytes: 100 } })
    const socket = await openSocket(url)
    socket.send('x'.repeat(101))
    expect((await socket.closed).code).toBe(1009)
  })

  test('is closed when its client never sends a pong', async () => {
    const { port } = await start({ limits: { pingMs: 20, pongMs: 20 } })
    const raw = await openRaw(port)
    raw.write(handshake('/'))
    raw.resume()
    await once(raw, 'close')
  })

  test('stays open when its client sends pongs', async () => {
    const { url, server } = await start({ limits: { pingMs: 5, pongMs: 2_000 } })
    const socket = await openSocket(url)
    for (let round = 0; round < 5; round++) {
      socket.send('1')
      await socket.next()
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect(server.webSockets).toBe(1)
  })

  test('of the feed is closed when its reader is too slow', async () => {
    const opened = Promise.withResolvers<Connection>()
    const { port } = await start({
      limits: { feedQueueBytes: 100_000 },
      feed: () => ({
        headers: [],
        replayBytes: 0,
        open(connection) {
          opened.resolve(connection)
          return { onMessage() {} }
        },
      }),
    })
    const raw = await openRaw(port)
    raw.write(handshake('/feed'))
    await once(raw, 'data')
    raw.pause()
    const connection = await opened.promise
    const frame = new Uint8Array(50_000)
    let sent = 0
    while (sent < 1_000 && connection.send(frame)) sent++
    expect(sent).toBeLessThan(1_000)
    expect(connection.queuedBytes).toBeLessThan(200_000)
    const ended = once(connection.signal, 'abort')
    raw.resume()
    await ended
  })

  test('is closed when a large response is not read in time', async () => {
    const respond: Responder = async () => ({
      text: `"${'x'.repeat(20_000_000)}"`,
      status: 200,
      headers: {},
    })
    const { port, server } = await start({ respond, limits: { unsentMs: 200 } })
    const raw = await openRaw(port)
    raw.write(handshake('/'))
    await once(raw, 'data')
    // The bytes are a masked text frame of one character.
    raw.write(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x31]))
    raw.pause()
    await expect.poll(() => server.unsent.cut).toBe(1)
    await expect.poll(() => server.webSockets).toBe(0)
    raw.destroy()
  })

  test('is closed with 1001 after its last responses when the node stops', async () => {
    const release = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const respond: Responder = async () => {
      started.resolve()
      await release.promise
      return { text: '"late"', status: 200, headers: {} }
    }
    const { url, server } = await start({ respond })
    const socket = await openSocket(url)
    socket.send('1')
    await started.promise
    const drained = server.drain(5_000)
    release.resolve()
    expect(await socket.next()).toBe('"late"')
    expect((await socket.closed).code).toBe(1001)
    await drained
  })
})
