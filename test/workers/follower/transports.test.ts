/** The HTTP and WebSocket transports talk over real sockets to an upstream with any behaviour. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, test } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import type { Transport } from '../../../engine/sources/upstream/messages.ts'
import { openHttp, retryAfterMs } from '../../../workers/follower/http.ts'
import { openUpstream, upstreamUrl } from '../../../workers/follower/upstreams.ts'
import { openWebSocket } from '../../../workers/follower/websocket.ts'

const MAX = 1_000
const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})
const portOf = (server: { address(): AddressInfo | string | null }) =>
  (server.address() as AddressInfo).port

async function serveHttp(
  respond: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<URL> {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    respond(request, response, body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return new URL(`http://127.0.0.1:${portOf(server)}/path?key=secret`)
}
/** Finds a port on which no server listens. */
async function deadPort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return port
}
const never = new AbortController().signal
const failed = (response: Promise<unknown>) =>
  response.then(
    (value) => {
      throw new Error(`answered ${JSON.stringify(value)}`)
    },
    (error: unknown) => error as UpstreamError,
  )
function opened(transport: Transport): Transport {
  closers.push(() => transport.close())
  return transport
}

describe('the HTTP transport', () => {
  const http = async (...response: Parameters<typeof serveHttp>) =>
    opened(openHttp(await serveHttp(...response), MAX))

  test('sends the message and returns the response', async () => {
    const received: unknown[] = []
    const transport = await http(({ method, url, headers }, response, body) => {
      received.push({ method, url, type: headers['content-type'], body })
      response.end('{"id":1,"result":"0x1"}')
    })
    expect(await transport.exchange('{"id":1}', [1], never)).toEqual({ id: 1, result: '0x1' })
    expect(received).toEqual([
      { method: 'POST', url: '/path?key=secret', type: 'application/json', body: '{"id":1}' },
    ])
  })
  test('sends user and password in a header', async () => {
    const url = await serveHttp(({ headers }, response) =>
      response.end(JSON.stringify(headers.authorization)),
    )
    url.username = 'us%3Aer'
    url.password = 'p%40ss'
    const transport = opened(openHttp(url, MAX))
    const basic = `Basic ${Buffer.from('us:er:p@ss').toString('base64')}`
    expect(await transport.exchange('{}', [], never)).toBe(basic)
  })

  type SendResponse = (response: ServerResponse) => void
  const status =
    (code: number, text: string, headers: Readonly<Record<string, string>> = {}): SendResponse =>
    (response) =>
      response.writeHead(code, headers).end(text)
  const bad: [what: string, response: SendResponse, expected: Partial<UpstreamError>][] = [
    ['not JSON', status(200, 'hello'), { kind: 'broken' }],
    ['nothing', status(200, ''), { kind: 'broken' }],
    ['an HTTP error', status(503, '<html>'), { kind: 'broken' }],
    [
      'too many requests, without a time',
      status(429, 'slow down'),
      { kind: 'limited', retryAfterMs: 0 },
    ],
    [
      'too many requests, with a time',
      status(429, '{}', { 'retry-after': '7' }),
      { kind: 'limited', retryAfterMs: 7_000 },
    ],
    ['a response that is too long', status(200, `"${'x'.repeat(MAX)}"`), { kind: 'large' }],
    ['a redirect', status(307, '', { location: 'http://127.0.0.1:1/' }), { kind: 'broken' }],
    [
      'a response that is cut off',
      (response) => {
        response.writeHead(200, { 'content-length': '100' }).write('{"id"')
        setImmediate(() => response.destroy())
      },
      { kind: 'broken' },
    ],
    ['a closed connection', (response) => void response.destroy(), { kind: 'broken' }],
  ]
  test.each(bad)(
    'gives an error without secrets for a bad response: %s',
    async (_, respond, expected) => {
      const transport = await http((__, response) => respond(response))
      const error = await failed(transport.exchange('{}', [1], never))
      expect(error).toMatchObject(expected)
      expect(error.message).not.toContain('secret')
    },
  )
  test('accepts a response of the maximum length', async () => {
    const text = `"${'x'.repeat(MAX - 2)}"`
    const transport = await http((_, response) => response.end(text))
    expect(JSON.stringify(await transport.exchange('{}', [1], never))).toBe(text)
  })
  test('accepts a JSON-RPC error with an HTTP error status', async () => {
    const reply = { error: { code: 1, message: 'not here' } }
    const transport = await http((_, response) =>
      response.writeHead(403).end(JSON.stringify(reply)),
    )
    expect(await transport.exchange('{}', [1], never)).toEqual(reply)
  })
  test('reports that nothing listens at the address', async () => {
    const transport = opened(openHttp(new URL(`http://127.0.0.1:${await deadPort()}`), MAX))
    expect(await failed(transport.exchange('{}', [1], never))).toMatchObject({
      kind: 'unreachable',
    })
    const nowhere = opened(openHttp(new URL('http://nowhere.invalid'), MAX))
    expect(await failed(nowhere.exchange('{}', [1], never))).toMatchObject({ kind: 'unreachable' })
  })
  test('ends a silent request and its connection with the signal', async () => {
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
  ])('reads Retry-After %s', (text, ms) => {
    expect(retryAfterMs(text, 1_000)).toBe(ms)
  })
})

describe('the WebSocket transport', () => {
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
      openWebSocket(new URL(`ws://127.0.0.1:${portOf(server)}/?key=secret`), MAX),
    )
    const connection = (): Promise<Connection> =>
      connections.length > 0
        ? Promise.resolve(connections.shift()!)
        : new Promise((resolve) => waiting.push(resolve))
    return { transport, connection }
  }
  const json = (value: unknown) => JSON.stringify(value)

  test('assigns responses to requests in any order, beside pushed messages', async () => {
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
  test('ends all requests when the connection ends, and opens another one', async () => {
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
    const repeated = transport.exchange('3', [3], never)
    const second = await connection()
    await second.next()
    second.socket.send(json({ id: 3, result: 1 }))
    expect(await repeated).toEqual({ id: 3, result: 1 })
  })
  test('closes the connection after a response that is too long', async () => {
    const { transport, connection } = await serve()
    const error = failed(transport.exchange('1', [1], never))
    const { socket } = await connection()
    socket.send(json({ id: 1, result: 'x'.repeat(MAX) }))
    expect(await error).toMatchObject({ kind: 'large' })
  })
  test('ends only the request whose signal is aborted', async () => {
    const { transport, connection } = await serve()
    const gone = new AbortController()
    const given = failed(transport.exchange('1', [1], gone.signal))
    const retained = transport.exchange('2', [2], never)
    const { socket, next } = await connection()
    await next()
    await next()
    gone.abort()
    await given
    socket.send(json({ id: 1, result: 'late' }))
    socket.send(json({ id: 2, result: 1 }))
    expect(await retained).toEqual({ id: 2, result: 1 })
  })
  test('reports that nothing listens, or that the server has no WebSocket', async () => {
    const dead = opened(openWebSocket(new URL(`ws://127.0.0.1:${await deadPort()}`), MAX))
    expect(await failed(dead.exchange('1', [1], never))).toMatchObject({ kind: 'unreachable' })
    const url = await serveHttp((_, response) => response.end('hello'))
    url.protocol = 'ws:'
    const other = opened(openWebSocket(url, MAX))
    expect(await failed(other.exchange('1', [1], never))).toMatchObject({ kind: 'unreachable' })
  })
  test('opens no connection after it was closed', async () => {
    const { transport, connection } = await serve()
    const error = failed(transport.exchange('1', [1], never))
    await connection()
    transport.close()
    expect((await error).kind).toBe('broken')
    expect(await failed(transport.exchange('2', [2], never))).toMatchObject({ kind: 'unreachable' })
  })
})

describe('an upstream', () => {
  test('has a name without anything that may be a key', async () => {
    const url = await serveHttp((_, response, body) => {
      const { id } = JSON.parse(body) as { id: number }
      response.end(JSON.stringify({ id, error: { code: -32005, message: 'slow down' } }))
    })
    url.username = 'user'
    const upstream = openUpstream(url.href, { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs: 300 })
    closers.push(() => upstream.close())
    expect(upstream.name).toBe(`http://127.0.0.1:${url.port}`)
    // The error has the code of a limit, though the HTTP status does not show one.
    const error = await failed(upstream.call('eth_x', []))
    expect(error).toBeInstanceOf(UpstreamError)
    expect(error.kind).toBe('limited')
  })
  test('gets its response in time although this thread stood still', async () => {
    const server = new Worker(RESPONSES_SOON, { eval: true })
    closers.push(() => server.terminate())
    const [port] = (await once(server, 'message')) as [number]
    const limits = { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs: 500 }
    const upstream = openUpstream(`http://127.0.0.1:${port}/`, limits)
    closers.push(() => upstream.close())
    const response = upstream.call('eth_x', [])
    await once(server, 'message')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
    expect(await response).toBe('0x1')
  })
  test.each(['ftp://x', 'xlayer', '', 'http://'])('is refused if its URL is %s', (text) => {
    expect(() => upstreamUrl(text)).toThrow('expected a URL such as https://host/path')
  })
})

/** The server reports its port, then each request, and responds a little later. */
const RESPONSES_SOON = `
const { createServer } = require('node:http')
const { parentPort } = require('node:worker_threads')
const server = createServer((request, response) => {
  request.resume()
  parentPort.postMessage('asked')
  setTimeout(() => response.end('{"jsonrpc":"2.0","id":1,"result":"0x1"}'), 100)
})
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`
