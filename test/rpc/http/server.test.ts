/**
 * The HTTP server handles paths, refusals and hostile input, over real sockets where that matters.
 */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Responder } from '../../../rpc/core/exchange.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { trustedProxies } from '../../../rpc/limiter/address.ts'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { openRaw, startServer, talk } from '../../fixtures/sockets.ts'

let server: Server
let port: number
beforeAll(async () => {
  const limits = { bodyBytes: 1_000, headersMs: 300, requestMs: 600 }
  const cors = ['https://app.example']
  const proxies = trustedProxies(['127.0.0.0/8'])
  const started = await startServer({ limits, cors, trustedProxies: proxies })
  server = started.server
  port = started.port
})
afterAll(() => server.close())

const json = { 'content-type': 'application/json' }
/** No response may take long. */
const SHORT = {
  ...{ callMs: 200, logsMs: 200, traceMs: 200, sidecarMs: 200, placeWaitMs: 0, shownHoldMs: 0 },
  ...{ announcedHoldMs: 0, sequencerMs: 200, syncSendMs: 200, legacyMs: 200, forwardMs: 200 },
}
const head = (path: string) => `POST ${path} HTTP/1.1\r\nhost: localhost\r\n`

describe('a request', () => {
  const cases: [
    name: string,
    request: { method?: string; path: string; headers?: Record<string, string>; body?: string },
    status: number,
    body: string | RegExp,
  ][] = [
    [
      'standard endpoint',
      { path: '/', headers: json, body: '{"a":"ü"}' },
      200,
      '{"body":"{\\"a\\":\\"ü\\"}","address":"127.0.0.1","endpoint":"standard"}',
    ],
    ['flashblocks endpoint', { path: '/flashblocks', headers: json, body: '' }, 200, /flashblocks/],
    [
      'query and charset',
      { path: '/?x=1', headers: { 'content-type': 'application/json; charset=utf-8' }, body: '1' },
      200,
      /standard/,
    ],
    [
      'forwarded by a trusted proxy',
      { path: '/', headers: { ...json, 'x-forwarded-for': '6.6.6.6, 5.5.5.5' }, body: '1' },
      200,
      /"address":"5.5.5.5"/,
    ],
    [
      'text/plain',
      { path: '/', headers: { 'content-type': 'text/plain' }, body: '1' },
      415,
      /json/,
    ],
    ['no content type', { path: '/' }, 415, /only application\/json is supported/],
    [
      'gzip',
      { path: '/', headers: { ...json, 'content-encoding': 'gzip' }, body: '1' },
      415,
      /enc/,
    ],
    ['PUT', { path: '/', method: 'PUT', headers: json, body: '1' }, 405, 'method not allowed\n'],
    ['other path', { path: '/foo', headers: json, body: '1' }, 404, 'not found\n'],
    ['a browser', { path: '/', method: 'GET' }, 200, /<!doctype html>/],
    ['health', { path: '/healthz', method: 'GET' }, 200, '{"status":"alive"}'],
    ['readiness', { path: '/readyz', method: 'GET' }, 200, '{"status":"ready","reasons":[]}'],
    [
      'too large',
      { path: '/', headers: json, body: 'x'.repeat(1_001) },
      413,
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"content length too large (1001>1000)"}}',
    ],
    [
      'a DNS name that points to this machine',
      { path: '/', headers: { ...json, host: 'evil.example' }, body: '1' },
      403,
      'invalid host specified\n',
    ],
    [
      'an IPv6 address without brackets',
      { path: '/', headers: { ...json, host: '::1' }, body: '1' },
      200,
      /body/,
    ],
    [
      'a host that is a port alone',
      { path: '/', headers: { ...json, host: ':1' }, body: '1' },
      403,
      /host/,
    ],
    ...[
      'application/json-rpc',
      'application/jsonrequest',
      'Application/JSON',
      'APPLICATION/JSON-RPC; charset=utf-8',
      'application/jsonrequest;charset=UTF-8; a=b',
    ].map((type): (typeof cases)[number] => [
      type,
      { path: '/', headers: { 'content-type': type }, body: '1' },
      200,
      /"body":"1"/,
    ]),
    ...['application/jsonp', 'application/json-seq', 'text/json', 'application/vnd.api+json'].map(
      (type): (typeof cases)[number] => [
        type,
        { path: '/', headers: { 'content-type': type }, body: '1' },
        415,
        'invalid content type, only application/json is supported\n',
      ],
    ),
    ['an address as host', { path: '/', headers: { ...json, host: '10.0.0.7:8545' } }, 200, /body/],
  ]
  test.each(cases)('gets the expected status and body: %s', async (_, request, status, body) => {
    const response = await server.inject({
      method: (request.method ?? 'POST') as 'POST',
      url: request.path,
      headers: request.headers ?? {},
      ...(request.body === undefined ? {} : { payload: request.body }),
    })
    expect(response.statusCode).toBe(status)
    if (typeof body === 'string') expect(response.body).toBe(body)
    else expect(response.body).toMatch(body)
  })

  // This request needs a socket, because `inject` replaces an empty host by its own.
  test.each(['llhttp', 'node'] as const)('gets a response with an empty host: %s', async (http) => {
    const other = await startServer({ http })
    const headers = 'content-type: application/json\r\ncontent-length: 1\r\nconnection: close'
    const text = `POST / HTTP/1.1\r\nhost: \r\n${headers}\r\n\r\n1`
    expect(await talk(other.port, text)).toMatch(/^HTTP\/1.1 200 .*"body":"1"/s)
    await other.server.close()
  })

  test.each(['llhttp', 'node'] as const)('may wait as long as its limit: %s', async (http) => {
    const respond: Responder = async () => {
      await new Promise((resolve) => setTimeout(resolve, 2_000))
      return { text: '"late"', status: 200, headers: {} }
    }
    const limits = { ...SHORT, requestMs: 200, syncSendMs: 600_000 }
    const other = await startServer({ http, respond, limits })
    const headers = 'content-type: application/json\r\ncontent-length: 1\r\nconnection: close'
    expect(await talk(other.port, `${head('/')}${headers}\r\n\r\n1`)).toMatch(/"late"$/)
    await other.server.close()
  })

  test('gets CORS headers for an allowed origin only', async () => {
    const origin = (name: string) =>
      server.inject({ method: 'POST', url: '/', headers: { ...json, origin: name }, payload: '1' })
    const [mine, other] = [
      await origin('https://app.example'),
      await origin('https://evil.example'),
    ]
    expect(mine.headers['access-control-allow-origin']).toBe('https://app.example')
    expect(mine.headers['access-control-expose-headers']).toContain('X-Flashblock')
    expect(other.headers['access-control-allow-origin']).toBe(undefined)
  })

  test.each<[string, Record<string, string>, string | undefined]>([
    ['on the fast path', { 'x-min-flashblock': '7:1:' }, '7:1:'],
    ['through the router', { 'x-min-flashblock': '7:1', origin: 'https://app.example' }, '7:1'],
    ['twice', { 'x-min-flashblock': '7:1\r\nx-min-flashblock: 8:1' }, '7:1, 8:1'],
    ['without one', {}, undefined],
  ])('passes its minimum flashblock on: %s', async (_, headers, reported) => {
    const requested: unknown[] = []
    const respond: Responder = (text, { minFlashblock }) => {
      requested.push(minFlashblock)
      return { text, status: 200, headers: {} }
    }
    const other = await startServer({ cors: ['https://app.example'], respond })
    const lines = Object.entries({ ...json, ...headers, 'content-length': 1, connection: 'close' })
    const text = lines.map((line) => line.join(': ')).join('\r\n')
    expect(await talk(other.port, `${head('/')}${text}\r\n\r\n1`)).toMatch(/^HTTP\/1.1 200 /)
    expect(requested).toEqual([reported])
    await other.server.close()
  })

  test.each<[string, Record<string, string>, string]>([
    ['a usual request', {}, '{"a":"ü"}'],
    ['of another origin', { origin: 'https://app.example' }, '1'],
    ['with a charset', { 'content-type': 'application/json; charset=utf-8' }, '1'],
    ['encoded', { 'content-encoding': 'gzip' }, '1'],
    ['with another host', { host: 'evil.example' }, '1'],
    ['too large', {}, 'x'.repeat(1_001)],
    ['without a response', {}, 'nothing'],
  ])(
    'gets the same response on the fast path as through the router: %s',
    async (_, headers, payload) => {
      for (const cors of [['*'], ['https://app.example']]) {
        const respond: Responder = (body) => {
          const text = body === 'nothing' ? undefined : body
          const status = text === undefined ? 204 : 200
          return { text, status, headers: { 'X-Flashblock': '1:2:0x3' } }
        }
        const other = await startServer({ cors, limits: { bodyBytes: 1_000 }, respond })
        const all = { host: 'localhost', ...json, ...headers }
        const routed = await other.server.inject({
          method: 'POST',
          url: '/',
          headers: all,
          payload,
        })
        const length = Buffer.byteLength(payload)
        const lines = Object.entries({ ...all, 'content-length': length, connection: 'close' })
        const [top, ...body] = (
          await talk(
            other.port,
            `POST / HTTP/1.1\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n${payload}`,
          )
        ).split('\r\n\r\n')
        const [status, ...fields] = top!.split('\r\n')
        expect(status).toContain(` ${routed.statusCode} `)
        expect(Buffer.from(body.join(), 'latin1').toString()).toBe(routed.body)
        const own = (names: string[]) =>
          names.filter((name) => !/^(date|connection|keep-alive|transfer-encoding)$/.test(name))
        const names = fields.map((field) => field.slice(0, field.indexOf(':')).toLowerCase())
        expect(own(names).toSorted()).toEqual(own(Object.keys(routed.headers)).toSorted())
        for (const name of own(names))
          expect(top!.toLowerCase()).toContain(`${name}: ${routed.headers[name]}`.toLowerCase())
        await other.server.close()
      }
    },
  )

  test('with method OPTIONS gets the CORS preflight response', async () => {
    const response = await server.inject({
      method: 'OPTIONS',
      url: '/flashblocks',
      headers: {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type, x-min-flashblock',
      },
    })
    expect(response.statusCode).toBe(204)
    expect(response.headers['access-control-allow-methods']).toContain('POST')
    expect(response.headers['access-control-allow-headers']).toBe('content-type, x-min-flashblock')
  })
})

test('a page of an allowed origin can read a 429 response', async () => {
  const limiter = createLimiter({ perSecond: 1, keys: 10, now: () => 950 })
  const other = await startServer({ cors: ['https://app.example'], limiter })
  for (let time = 0; time < 2; time++) await limiter.charge('127.0.0.1', 1)
  const origin = 'origin: https://app.example'
  const rest = `content-type: application/json\r\n${origin}\r\nconnection: close\r\ncontent-length: 1`
  const said = await talk(other.port, `${head('/')}${rest}\r\n\r\n1`)
  expect(said).toMatch(/^HTTP\/1.1 429 /)
  expect(said).toContain('access-control-allow-origin: https://app.example\r\n')
  await other.server.close()
})

describe('a hostile request', () => {
  test('may have a header named __proto__', async () => {
    const response = await talk(
      port,
      `${head('/')}__proto__: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 1\r\n\r\n1`,
    )
    expect(response).toMatch(/^HTTP\/1.1 200 /)
  })

  test('with too many bytes of headers is refused', async () => {
    const response = await talk(port, `${head('/')}x: ${'y'.repeat(20_000)}\r\n\r\n`)
    expect(response).toMatch(/^HTTP\/1.1 431 /)
  })

  test('with two thousand headers is refused', async () => {
    const many = Array.from({ length: 2_000 }, (_, index) => `h${index}: 1\r\n`).join('')
    const response = await talk(port, `${head('/')}${many}\r\n`)
    expect(response).toMatch(/^HTTP\/1.1 4\d\d /)
  })

  test('with headers that never end gets 408', async () => {
    expect(await talk(port, head('/'))).toMatch(/^HTTP\/1.1 408 /)
  })

  test('with a body shorter than its length gets 408', async () => {
    const response = await talk(
      port,
      `${head('/')}content-type: application/json\r\ncontent-length: 50\r\n\r\n{`,
    )
    expect(response).toMatch(/^HTTP\/1.1 408 /)
  })

  test('with chunks that never end gets 413', async () => {
    const chunk = `40\r\n${'x'.repeat(64)}\r\n`
    const response = await talk(
      port,
      `${head('/')}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${chunk.repeat(32)}`,
    )
    expect(response).toMatch(/^HTTP\/1.1 413 [\s\S]*content length too large \(\d+>1000\)/)
  })

  test('with a body that is far too large gets a readable 413', async () => {
    for (const size of [100_000, 8_000_000]) {
      const response = await fetch(`http://127.0.0.1:${port}/`, {
        method: 'POST',
        headers: json,
        body: 'x'.repeat(size),
      })
      expect(response.status).toBe(413)
      expect(await response.json()).toMatchObject({ error: { code: -32600 } })
    }
  })

  test('with a length and chunks at once gets 400', async () => {
    const response = await talk(
      port,
      `${head('/')}content-type: application/json\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    )
    expect(response).toMatch(/^HTTP\/1.1 400 /)
  })

  test('from a client that never reads its response ends with a closed connection', async () => {
    const text = `"${'x'.repeat(30_000_000)}"`
    const respond: Responder = async () => ({ text, status: 200, headers: {} })
    const other = await startServer({ respond, limits: { ...SHORT, requestMs: 200 } })
    const socket = await openRaw(other.port)
    socket.pause()
    socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
    const { server: http } = other
    await expect.poll(() => http.connections()).toBe(0)
    socket.destroy()
    await other.server.close()
  })

  describe('with an unread response', () => {
    const text = `"${'x'.repeat(30_000_000)}"`
    const respond: Responder = async () => ({ text, status: 200, headers: {} })
    const sendRequest = async (to: number) => {
      const socket = await openRaw(to)
      socket.pause()
      socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
      return socket
    }

    test('is cut off at its timeout, however steadily its client reads', async () => {
      const other = await startServer({ respond, limits: { unsentMs: 200 } })
      const socket = await sendRequest(other.port)
      const sip = setInterval(() => socket.read(1_024), 10)
      await expect.poll(() => other.server.unsent).toEqual({ responses: 0, bytes: 0, cut: 1 })
      await expect.poll(() => other.server.connections()).toBe(0)
      clearInterval(sip)
      socket.destroy()
      await other.server.close()
    })

    test('is cut off for newer ones when too many bytes wait', async () => {
      const other = await startServer({ respond, limits: { unsentBytes: 70_000_000 } })
      const sockets = [
        await sendRequest(other.port),
        await sendRequest(other.port),
        await sendRequest(other.port),
      ]
      await expect
        .poll(() => other.server.unsent)
        .toEqual({ responses: 2, bytes: 2 * text.length, cut: 1 })
      await expect.poll(() => other.server.connections()).toBe(2)
      for (const socket of sockets) socket.destroy()
      await expect.poll(() => other.server.unsent.responses).toBe(0)
      await other.server.close()
    })
  })

  test('aborts its signal when the client disconnects', async () => {
    const seen = Promise.withResolvers<AbortSignal>()
    const gone = Promise.withResolvers<void>()
    const respond: Responder = async (_body, client) => {
      client.signal.addEventListener('abort', () => gone.resolve())
      seen.resolve(client.signal)
      await gone.promise
      return { text: 'never read', status: 200, headers: {} }
    }
    const other = await startServer({ respond })
    const socket = await openRaw(other.port)
    socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
    expect((await seen.promise).aborted).toBe(false)
    socket.destroy()
    await gone.promise
    expect((await seen.promise).aborted).toBe(true)
    await other.server.close()
  })
})

describe('the server', () => {
  test('refuses JSON-RPC while it starts or drains, but serves its health', async () => {
    const release = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const respond: Responder = async () => {
      started.resolve()
      await release.promise
      return { text: '"late"', status: 200, headers: {} }
    }
    const other = await startServer({
      respond,
      readiness: () => ({ status: 'unready', reasons: ['no head yet'], details: { head: 0 } }),
    })
    const post = () => fetch(other.url, { method: 'POST', headers: json, body: '1' })
    other.server.setPaused('starting')
    const refused = await post()
    expect(refused.status).toBe(503)
    expect(await refused.json()).toEqual({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32005, message: 'the node is starting', data: { reason: 'starting' } },
    })
    const ready = await fetch(`${other.url}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.json()).toEqual({ status: 'unready', reasons: ['no head yet'], head: 0 })
    expect((await fetch(`${other.url}/healthz`)).status).toBe(200)

    other.server.setPaused(undefined)
    const late = post()
    await started.promise
    expect(other.server.inFlight).toBe(1)
    const drained = other.server.drain(5_000)
    expect((await post()).status).toBe(503)
    release.resolve()
    expect(await (await late).text()).toBe('"late"')
    await drained
    await other.server.close()
  })

  test('drains no longer than its timeout', async () => {
    const started = Promise.withResolvers<void>()
    const never = new Promise<never>(() => {})
    const respond: Responder = () => {
      started.resolve()
      return never
    }
    const other = await startServer({ respond })
    const socket = await openRaw(other.port)
    socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
    await started.promise
    await other.server.drain(20)
    const closed = once(socket, 'close')
    await other.server.close()
    await closed
  })

  test('reports an exception in a responder and closes the connection', async () => {
    const bugs: unknown[] = []
    const respond: Responder = () => {
      throw new Error('a fault of ours')
    }
    const other = await startServer({ respond, onBug: (error) => bugs.push(error) })
    const socket = await openRaw(other.port)
    const closed = once(socket, 'close')
    const type = 'content-type: application/json; charset=utf-8'
    socket.write(`${head('/')}${type}\r\ncontent-length: 1\r\n\r\n1`)
    await closed
    expect(bugs).toEqual([new Error('a fault of ours')])
    expect(other.server.inFlight).toBe(0)
    await other.server.close()
  })

  test('cannot listen on a port in use', async () => {
    const other = startServer()
    const taken = (await other).port
    const second = (await startServer()).server
    await expect(second.listen({ host: '127.0.0.1', port: taken })).rejects.toThrow()
    await (await other).server.close()
    await second.close()
  })
})

test('a connection closes after its maximum of requests, without a refusal', async () => {
  const started = await startServer({ limits: { requestsPerSocket: 3 } })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const ports = new Set<number | undefined>()
  const statuses: (number | undefined)[] = []
  try {
    for (let at = 0; at < 7; at++) {
      const requested = request(`${started.url}/`, { method: 'POST', agent, headers: json })
      requested.end('1')
      const [response] = (await once(requested, 'response')) as [IncomingMessage]
      ports.add(requested.socket?.localPort)
      statuses.push(response.statusCode)
      response.resume()
      await once(response, 'end')
    }
    expect(statuses).toEqual(Array(7).fill(200))
    expect(ports.size).toBe(3)
    const piped = `${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`.repeat(
      5,
    )
    const text = await talk(started.port, piped)
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(Array(3).fill('HTTP/1.1 200'))
    expect(text.toLowerCase().match(/connection: close/g)).toHaveLength(1)
  } finally {
    agent.destroy()
    await started.server.close()
  }
})
