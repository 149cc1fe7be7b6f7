/** The HTTP face: paths, refusals and hostile input, over real sockets where it matters. */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Server } from '../../../rpc/http/server.ts'
import { trustedProxies } from '../../../rpc/seam/address.ts'
import type { Answerer } from '../../../rpc/seam/exchange.ts'
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
const head = (path: string) => `POST ${path} HTTP/1.1\r\nhost: localhost\r\n`

describe('requests', () => {
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
      'a name that was made to point here',
      { path: '/', headers: { ...json, host: 'evil.example' }, body: '1' },
      403,
      'invalid host specified\n',
    ],
    ['an empty host', { path: '/', headers: { ...json, host: '' }, body: '1' }, 200, /body/],
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
  test.each(cases)('%s', async (_, request, status, body) => {
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

  test('an allowed origin is told so, another is not', async () => {
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
    ['a usual one', { 'x-min-flashblock': '7:1:' }, '7:1:'],
    ['through the router', { 'x-min-flashblock': '7:1', origin: 'https://app.example' }, '7:1'],
    ['twice', { 'x-min-flashblock': '7:1\r\nx-min-flashblock: 8:1' }, '7:1, 8:1'],
    ['without', {}, undefined],
  ])('the place that a request asks for is told: %s', async (_, headers, told) => {
    const asked: unknown[] = []
    const answer: Answerer = (text, { minFlashblock }) => {
      asked.push(minFlashblock)
      return { text, status: 200, headers: {} }
    }
    const other = await startServer({ cors: ['https://app.example'], answer })
    const lines = Object.entries({ ...json, ...headers, 'content-length': 1, connection: 'close' })
    const text = lines.map((line) => line.join(': ')).join('\r\n')
    expect(await talk(other.port, `${head('/')}${text}\r\n\r\n1`)).toMatch(/^HTTP\/1.1 200 /)
    expect(asked).toEqual([told])
    await other.server.close()
  })

  test.each<[string, Record<string, string>, string]>([
    ['a usual one', {}, '{"a":"ü"}'],
    ['of another origin', { origin: 'https://app.example' }, '1'],
    ['with a charset', { 'content-type': 'application/json; charset=utf-8' }, '1'],
    ['encoded', { 'content-encoding': 'gzip' }, '1'],
    ['for another host', { host: 'evil.example' }, '1'],
    ['too large', {}, 'x'.repeat(1_001)],
    ['without an answer', {}, 'nothing'],
  ])('answers straight as it does through the router: %s', async (_, headers, payload) => {
    for (const cors of [['*'], ['https://app.example']]) {
      const answer: Answerer = (body) => {
        const text = body === 'nothing' ? undefined : body
        const status = text === undefined ? 204 : 200
        return { text, status, headers: { 'X-Flashblock': '1:2:0x3' } }
      }
      const other = await startServer({ cors, limits: { bodyBytes: 1_000 }, answer })
      const all = { host: 'localhost', ...json, ...headers }
      const routed = await other.server.inject({ method: 'POST', url: '/', headers: all, payload })
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
  })

  test('preflight', async () => {
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

describe('hostile input', () => {
  test('a header named __proto__ is a header like others', async () => {
    const answer = await talk(
      port,
      `${head('/')}__proto__: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 1\r\n\r\n1`,
    )
    expect(answer).toMatch(/^HTTP\/1.1 200 /)
  })

  test('too many bytes of headers', async () => {
    const answer = await talk(port, `${head('/')}x: ${'y'.repeat(20_000)}\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1.1 431 /)
  })

  test('two thousand headers', async () => {
    const many = Array.from({ length: 2_000 }, (_, index) => `h${index}: 1\r\n`).join('')
    const answer = await talk(port, `${head('/')}${many}\r\n`)
    expect(answer).toMatch(/^HTTP\/1.1 4\d\d /)
  })

  test('headers that never end', async () => {
    expect(await talk(port, head('/'))).toMatch(/^HTTP\/1.1 408 /)
  })

  test('a body shorter than its length', async () => {
    const answer = await talk(
      port,
      `${head('/')}content-type: application/json\r\ncontent-length: 50\r\n\r\n{`,
    )
    expect(answer).toMatch(/^HTTP\/1.1 408 /)
  })

  test('chunks that never end', async () => {
    const chunk = `40\r\n${'x'.repeat(64)}\r\n`
    const answer = await talk(
      port,
      `${head('/')}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${chunk.repeat(32)}`,
    )
    expect(answer).toMatch(/^HTTP\/1.1 413 [\s\S]*content length too large \(\d+>1000\)/)
  })

  test('a body that is far too large is refused in a way that its sender can read', async () => {
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

  test('length and chunks at once', async () => {
    const answer = await talk(
      port,
      `${head('/')}content-type: application/json\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    )
    expect(answer).toMatch(/^HTTP\/1.1 400 /)
  })

  test('a client that does not read its answer is left', async () => {
    const text = `"${'x'.repeat(30_000_000)}"`
    const answer: Answerer = async () => ({ text, status: 200, headers: {} })
    const ms = { requestMs: 200, callMs: 200, logsMs: 200, traceMs: 200, sidecarMs: 200 }
    const other = await startServer({ answer, limits: ms })
    const socket = await openRaw(other.port)
    socket.pause()
    socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
    const { server: http } = other
    await expect.poll(() => http.connections()).toBe(0)
    socket.destroy()
    await other.server.close()
  })

  describe('an answer that is not taken', () => {
    const text = `"${'x'.repeat(30_000_000)}"`
    const answer: Answerer = async () => ({ text, status: 200, headers: {} })
    const ask = async (to: number) => {
      const socket = await openRaw(to)
      socket.pause()
      socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
      return socket
    }

    test('in time is cut off, however steadily its client reads', async () => {
      const other = await startServer({ answer, limits: { unsentMs: 200 } })
      const socket = await ask(other.port)
      const sip = setInterval(() => socket.read(1_024), 10)
      await expect.poll(() => other.server.unsent).toEqual({ answers: 0, bytes: 0, cut: 1 })
      await expect.poll(() => other.server.connections()).toBe(0)
      clearInterval(sip)
      socket.destroy()
      await other.server.close()
    })

    test('makes room for newer ones when too many bytes wait', async () => {
      const other = await startServer({ answer, limits: { unsentBytes: 70_000_000 } })
      const sockets = [await ask(other.port), await ask(other.port), await ask(other.port)]
      await expect
        .poll(() => other.server.unsent)
        .toEqual({ answers: 2, bytes: 2 * text.length, cut: 1 })
      await expect.poll(() => other.server.connections()).toBe(2)
      for (const socket of sockets) socket.destroy()
      await expect.poll(() => other.server.unsent.answers).toBe(0)
      await other.server.close()
    })
  })

  test('a client that leaves is told to its request', async () => {
    const seen = Promise.withResolvers<AbortSignal>()
    const gone = Promise.withResolvers<void>()
    const answer: Answerer = async (_body, client) => {
      client.signal.addEventListener('abort', () => gone.resolve())
      seen.resolve(client.signal)
      await gone.promise
      return { text: 'never read', status: 200, headers: {} }
    }
    const other = await startServer({ answer })
    const socket = await openRaw(other.port)
    socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
    expect((await seen.promise).aborted).toBe(false)
    socket.destroy()
    await gone.promise
    expect((await seen.promise).aborted).toBe(true)
    await other.server.close()
  })
})

describe('life', () => {
  test('while starting and draining, JSON-RPC is refused and health is served', async () => {
    const release = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const answer: Answerer = async () => {
      begun.resolve()
      await release.promise
      return { text: '"late"', status: 200, headers: {} }
    }
    const other = await startServer({
      answer,
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
    await begun.promise
    expect(other.server.inFlight).toBe(1)
    const drained = other.server.drain(5_000)
    expect((await post()).status).toBe(503)
    release.resolve()
    expect(await (await late).text()).toBe('"late"')
    await drained
    await other.server.close()
  })

  test('a drain waits no longer than it is told', async () => {
    const begun = Promise.withResolvers<void>()
    const never = new Promise<never>(() => {})
    const answer: Answerer = () => {
      begun.resolve()
      return never
    }
    const other = await startServer({ answer })
    const socket = await openRaw(other.port)
    socket.write(`${head('/')}content-type: application/json\r\ncontent-length: 1\r\n\r\n1`)
    await begun.promise
    await other.server.drain(20)
    const closed = once(socket, 'close')
    await other.server.close()
    await closed
  })

  test('a port that is taken is an error', async () => {
    const other = startServer()
    const taken = (await other).port
    const second = (await startServer()).server
    await expect(second.listen({ host: '127.0.0.1', port: taken })).rejects.toThrow()
    await (await other).server.close()
    await second.close()
  })
})

test('a connection that had its requests is closed after the last answer, and none is refused', async () => {
  const started = await startServer({ limits: { requestsPerSocket: 3 } })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const ports = new Set<number | undefined>()
  const statuses: (number | undefined)[] = []
  try {
    for (let at = 0; at < 7; at++) {
      const asked = request(`${started.url}/`, { method: 'POST', agent, headers: json })
      asked.end('1')
      const [response] = (await once(asked, 'response')) as [IncomingMessage]
      ports.add(asked.socket?.localPort)
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
