/** HTTP and WebSocket to an upstream that may do anything, over real sockets. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, test } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import type { Transport } from '../../../engine/sources/upstream/transport.ts'
import { openHttp, retryAfterMs } from '../../../workers/follower/http.ts'
import { openUpstream, upstreamUrl } from '../../../workers/follower/upstreams.ts'
import { openWebSocket } from '../../../workers/follower/websocket.ts'

const MOST = 1_000
const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})
const portOf = (server: { address(): AddressInfo | string | null }) =>
  (server.address() as AddressInfo).port

async function serveHttp(
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<URL> {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    answer(request, response, body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return new URL(`http://127.0.0.1:${portOf(server)}/path?key=secret`)
}
/** A port where nobody listens. */
async function deadPort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return port
}
const never = new AbortController().signal
const failed = (answer: Promise<unknown>) =>
  answer.then(
    (value) => {
      throw new Error(`answered ${JSON.stringify(value)}`)
    },
    (error: unknown) => error as UpstreamError,
  )
function opened(transport: Transport): Transport {
  closers.push(() => transport.close())
  return transport
}

describe('HTTP', () => {
  const http = async (...answer: Parameters<typeof serveHttp>) =>
    opened(openHttp(await serveHttp(...answer), MOST))

  test('takes the message there and the answer back', async () => {
    const heard: unknown[] = []
    const transport = await http(({ method, url, headers }, response, body) => {
      heard.push({ method, url, type: headers['content-type'], body })
      response.end('{"id":1,"result":"0x1"}')
    })
    expect(await transport.exchange('{"id":1}', [1], never)).toEqual({ id: 1, result: '0x1' })
    expect(heard).toEqual([
      { method: 'POST', url: '/path?key=secret', type: 'application/json', body: '{"id":1}' },
    ])
  })
  test('a user and a password go into a header, and into no message', async () => {
    const url = await serveHttp(({ headers }, response) =>
      response.end(JSON.stringify(headers.authorization)),
    )
    url.username = 'us%3Aer'
    url.password = 'p%40ss'
    const transport = opened(openHttp(url, MOST))
    const basic = `Basic ${Buffer.from('us:er:p@ss').toString('base64')}`
    expect(await transport.exchange('{}', [], never)).toBe(basic)
  })

  type Answer = (response: ServerResponse) => void
  const status =
    (code: number, text: string, headers: Readonly<Record<string, string>> = {}): Answer =>
    (response) =>
      response.writeHead(code, headers).end(text)
  const bad: [what: string, answer: Answer, expected: Partial<UpstreamError>][] = [
    ['not JSON', status(200, 'hello'), { kind: 'broken' }],
    ['nothing', status(200, ''), { kind: 'broken' }],
    ['an error of HTTP', status(503, '<html>'), { kind: 'broken' }],
    ['too many, without a time', status(429, 'slow down'), { kind: 'limited', retryAfterMs: 0 }],
    [
      'too many, with a time',
      status(429, '{}', { 'retry-after': '7' }),
      { kind: 'limited', retryAfterMs: 7_000 },
    ],
    ['too long', status(200, `"${'x'.repeat(MOST)}"`), { kind: 'large' }],
    ['elsewhere', status(307, '', { location: 'http://127.0.0.1:1/' }), { kind: 'broken' }],
    [
      'cut off',
      (response) => {
        response.writeHead(200, { 'content-length': '100' }).write('{"id"')
        setImmediate(() => response.destroy())
      },
      { kind: 'broken' },
    ],
    ['a closed connection', (response) => void response.destroy(), { kind: 'broken' }],
  ]
  test.each(bad)('%s', async (_, answer, expected) => {
    const transport = await http((__, response) => answer(response))
    const error = await failed(transport.exchange('{}', [1], never))
    expect(error).toMatchObject(expected)
    expect(error.message).not.toContain('secret')
  })
  test('an answer of the greatest length is taken', async () => {
    const text = `"${'x'.repeat(MOST - 2)}"`
    const transport = await http((_, response) => response.end(text))
    expect(JSON.stringify(await transport.exchange('{}', [1], never))).toBe(text)
  })
  test('an error of HTTP that is an answer is one', async () => {
    const answer = { error: { code: 1, message: 'not here' } }
    const transport = await http((_, response) =>
      response.writeHead(403).end(JSON.stringify(answer)),
    )
    expect(await transport.exchange('{}', [1], never)).toEqual(answer)
  })
  test('nobody there', async () => {
    const transport = opened(openHttp(new URL(`http://127.0.0.1:${await deadPort()}`), MOST))
    expect(await failed(transport.exchange('{}', [1], never))).toMatchObject({
      kind: 'unreachable',
    })
    const nowhere = opened(openHttp(new URL('http://nowhere.invalid'), MOST))
    expect(await failed(nowhere.exchange('{}', [1], never))).toMatchObject({ kind: 'unreachable' })
  })
  test('silence ends with the signal, and with the connection', async () => {
    const arrived = Promise.withResolvers<IncomingMessage>()
    const transport = await http((request) => arrived.resolve(request))
    const gone = new AbortController()
    const error = failed(transport.exchange('{}', [1], gone.signal))
    const request = await arrived.promise
    gone.abort()
    await error
    if (!request.socket.destroyed) await once(request.socket, 'close')
  })
  test.each([
    [null, 0],
    ['', 0],
    ['0', 0],
    ['12', 12_000],
    ['soon', 0],
    ['Thu, 01 Jan 1970 00:00:10 GMT', 9_000],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
  ])('Retry-After %s', (text, ms) => {
    expect(retryAfterMs(text, 1_000)).toBe(ms)
  })
})

describe('WebSocket', () => {
  type Connection = { readonly socket: WebSocket; next(): Promise<string> }
  async function serve() {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    await once(server, 'listening')
    closers.push(() => {
      for (const client of server.clients) client.terminate()
      server.close()
    })
    const connections: Connection[] = []
    const waiting: ((connection: Connection) => void)[] = []
    server.on('connection', (socket) => {
      const messages: string[] = []
      const takers: ((text: string) => void)[] = []
      socket.on('message', (data) => {
        const take = takers.shift()
        if (take === undefined) messages.push(String(data))
        else take(String(data))
      })
      const connection: Connection = {
        socket,
        next: () =>
          messages.length > 0
            ? Promise.resolve(messages.shift()!)
            : new Promise((resolve) => takers.push(resolve)),
      }
      const take = waiting.shift()
      if (take === undefined) connections.push(connection)
      else take(connection)
    })
    const transport = opened(
      openWebSocket(new URL(`ws://127.0.0.1:${portOf(server)}/?key=secret`), MOST),
    )
    const connection = (): Promise<Connection> =>
      connections.length > 0
        ? Promise.resolve(connections.shift()!)
        : new Promise((resolve) => waiting.push(resolve))
    return { transport, connection }
  }
  const json = (value: unknown) => JSON.stringify(value)

  test('answers find their questions, in any order, beside what nobody asked', async () => {
    const { transport, connection } = await serve()
    const pushed: unknown[] = []
    transport.pushes!.onMessage((message) => void pushed.push(message))
    const one = transport.exchange('one', [1], never)
    const batch = transport.exchange('batch', [2, 3], never)
    const { socket, next } = await connection()
    expect([await next(), await next()]).toEqual(['one', 'batch'])
    socket.send('garbage')
    socket.send('7')
    socket.send(json({ method: 'eth_subscription', params: { result: 1 } }))
    socket.send(
      json([
        { id: 3, result: 'b' },
        { id: 2, result: 'a' },
      ]),
    )
    socket.send(json({ id: 9, result: 'nobody’s' }))
    socket.send(json({ id: 1, result: 'c' }))
    expect(await one).toEqual({ id: 1, result: 'c' })
    expect(await batch).toEqual([
      { id: 3, result: 'b' },
      { id: 2, result: 'a' },
    ])
    expect(pushed).toEqual([
      { method: 'eth_subscription', params: { result: 1 } },
      { id: 9, result: 'nobody’s' },
    ])
  })
  test('all that wait are told when the connection ends; the next one opens another', async () => {
    const { transport, connection } = await serve()
    let closes = 0
    transport.pushes!.onClose(() => void closes++)
    const waiting = [1, 2].map((id) => failed(transport.exchange(`${id}`, [id], never)))
    const first = await connection()
    await first.next()
    await first.next()
    first.socket.terminate()
    for (const error of await Promise.all(waiting)) {
      expect(error.kind).toBe('broken')
      expect(error.message).not.toContain('secret')
    }
    expect(closes).toBe(1)
    const again = transport.exchange('3', [3], never)
    const second = await connection()
    await second.next()
    second.socket.send(json({ id: 3, result: 1 }))
    expect(await again).toEqual({ id: 3, result: 1 })
  })
  test('an answer that is too long ends the connection', async () => {
    const { transport, connection } = await serve()
    const error = failed(transport.exchange('1', [1], never))
    const { socket } = await connection()
    socket.send(json({ id: 1, result: 'x'.repeat(MOST) }))
    expect(await error).toMatchObject({ kind: 'large' })
  })
  test('a signal ends one question, and not the others', async () => {
    const { transport, connection } = await serve()
    const gone = new AbortController()
    const given = failed(transport.exchange('1', [1], gone.signal))
    const kept = transport.exchange('2', [2], never)
    const { socket, next } = await connection()
    await next()
    await next()
    gone.abort()
    await given
    socket.send(json({ id: 1, result: 'late' }))
    socket.send(json({ id: 2, result: 1 }))
    expect(await kept).toEqual({ id: 2, result: 1 })
  })
  test('nobody there, and nobody who speaks WebSocket', async () => {
    const dead = opened(openWebSocket(new URL(`ws://127.0.0.1:${await deadPort()}`), MOST))
    expect(await failed(dead.exchange('1', [1], never))).toMatchObject({ kind: 'unreachable' })
    const url = await serveHttp((_, response) => response.end('hello'))
    url.protocol = 'ws:'
    const other = opened(openWebSocket(url, MOST))
    expect(await failed(other.exchange('1', [1], never))).toMatchObject({ kind: 'unreachable' })
  })
  test('closed, it opens nothing more', async () => {
    const { transport, connection } = await serve()
    const error = failed(transport.exchange('1', [1], never))
    await connection()
    transport.close()
    expect((await error).kind).toBe('broken')
    expect(await failed(transport.exchange('2', [2], never))).toMatchObject({ kind: 'unreachable' })
  })
})

describe('an upstream by its URL', () => {
  test('says who it is without what may be a key', async () => {
    const url = await serveHttp((_, response, body) => {
      const { id } = JSON.parse(body) as { id: number }
      response.end(JSON.stringify({ id, error: { code: -32005, message: 'slow down' } }))
    })
    url.username = 'user'
    const upstream = openUpstream(url.href, { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs: 300 })
    closers.push(() => upstream.close())
    expect(upstream.name).toBe(`http://127.0.0.1:${url.port}`)
    // The code of a limit, though HTTP says nothing of it.
    const error = await failed(upstream.call('eth_x', []))
    expect(error).toBeInstanceOf(UpstreamError)
    expect(error.kind).toBe('limited')
  })
  test('an answer that came while this thread stood still is not late', async () => {
    const server = new Worker(ANSWERS_SOON, { eval: true })
    closers.push(() => server.terminate())
    const [port] = (await once(server, 'message')) as [number]
    const limits = { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs: 500 }
    const upstream = openUpstream(`http://127.0.0.1:${port}/`, limits)
    closers.push(() => upstream.close())
    const answer = upstream.call('eth_x', [])
    await once(server, 'message')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
    expect(await answer).toBe('0x1')
  })
  test.each(['ftp://x', 'xlayer', '', 'http://'])('%s is none', (text) => {
    expect(() => upstreamUrl(text)).toThrow('expected a URL such as https://host/path')
  })
})

/** Says its port, then that a request is there; answers a little later. */
const ANSWERS_SOON = `
const { createServer } = require('node:http')
const { parentPort } = require('node:worker_threads')
const server = createServer((request, response) => {
  request.resume()
  parentPort.postMessage('asked')
  setTimeout(() => response.end('{"jsonrpc":"2.0","id":1,"result":"0x1"}'), 100)
})
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`
