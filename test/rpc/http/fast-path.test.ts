/**
 * Plain requests on the fast path must give the same bytes as over Node. From the first request
 * that is not plain, Node takes over.
 */
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Client } from '../../../rpc/core/client.ts'
import { LargeResponse, type Responder, type RpcResponse } from '../../../rpc/core/exchange.ts'
import { trustedProxies } from '../../../rpc/limiter/address.ts'
import { PlainExchange } from '../../../rpc/wire/plain-exchange.ts'
import { openRaw, startServer, type TestServerOptions, talk } from '../../fixtures/sockets.ts'
import { spending } from '../../fixtures/spending.ts'

const HEAD = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
const post = (body: string, lines: readonly string[] = [], head = HEAD) =>
  `${head}${lines.map((line) => `${line}\r\n`).join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
/** The connection ends after the response to this request. */
const LAST = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'

async function start(options: TestServerOptions = {}) {
  const started = await startServer(options)
  onTestFinished(() => started.server.close())
  return started
}

const FLASHBLOCK_HEADER = { 'X-Flashblock': '7:1:0x2' }
const TOO_MANY = { RateLimit: '"n";r=0;t=1', 'RateLimit-Policy': '"n";q=1;w=1', 'Retry-After': '1' }
const RESPONSES: Readonly<Record<string, RpcResponse>> = {
  nothing: { text: undefined, status: 204, headers: FLASHBLOCK_HEADER },
  empty: { text: undefined, status: 200, headers: {} },
  letters: { text: '"ü€😀"', status: 200, headers: FLASHBLOCK_HEADER },
  long: {
    text: JSON.stringify('0123456789'.repeat(5_000)),
    status: 200,
    headers: FLASHBLOCK_HEADER,
  },
  refused: { text: '{"error":1}', status: 429, headers: TOO_MANY },
  large: new LargeResponse(['["', 'x'.repeat(300_000), Buffer.from('ü'), '"]'], FLASHBLOCK_HEADER),
}
/** Responds with the request, or with a prescribed response. */
function responseOf(body: string, { address, endpoint, minFlashblock }: Client): RpcResponse {
  const text = JSON.stringify({ body, address, endpoint, minFlashblock })
  return RESPONSES[body] ?? { text, status: 200, headers: {} }
}
/** Responds at once or later, depending on a number in the body. */
const respond: Responder = (body, client) => {
  const delay = Number(/^later(\d+)/.exec(body)?.[1] ?? 0)
  if (delay === 0) return responseOf(body, client)
  return new Promise((resolve) => setTimeout(() => resolve(responseOf(body, client)), delay))
}

/** Normalises a response: the order of its headers, and values that change each time. */
function normalised(text: string): string[] {
  return text.split(/(?=HTTP\/1\.1 \d{3} )/).map((one) => {
    const [head = '', ...rest] = one.split('\r\n\r\n')
    const [status, ...lines] = head.split('\r\n')
    const dated = lines.map((line) => line.replace(/^Date: .*GMT$/, 'Date: now'))
    return [status, ...dated.toSorted((a, b) => (a < b ? -1 : 1)), '', ...rest].join('\n')
  })
}

/** Writes each text in its own piece, and gives the whole response. */
async function exchange(port: number, pieces: readonly string[], isEnded = false): Promise<string> {
  const socket = await openRaw(port)
  let response = ''
  socket.on('data', (chunk) => {
    response += chunk.toString('latin1')
  })
  const closed = once(socket, 'close')
  for (const piece of pieces) {
    socket.write(piece)
    await nextTurn()
    await nextTurn()
  }
  if (isEnded) socket.end()
  await closed
  return response
}

describe('requests on the fast path', () => {
  const browsers = { cors: ['https://app.example'] }
  const proxied = { trustedProxies: trustedProxies(['127.0.0.1']) }
  const cases: [name: string, pieces: string[], options?: TestServerOptions, isEnded?: boolean][] =
    [
      ['one request', [post('{"a":"ü"}')]],
      ['an empty body', [post('')]],
      ['the other endpoint', [post('1', [], HEAD.replace('/ ', '/flashblocks '))]],
      ['no response', [post('nothing')]],
      ['an empty response', [post('empty')]],
      ['letters of several bytes', [post('letters')]],
      ['a refusal', [post('refused')]],
      ['a large response before further requests', [post('large') + post('2') + post('large')]],
      ['several requests at once', [Array.from({ length: 20 }, (_, at) => post(`${at}`)).join('')]],
      [
        'several requests, with the first response late',
        [post('later20') + post('2') + post('later10') + post('4')],
      ],
      ['head and body in two pieces', [post('{"a":1}').slice(0, -7), '{"a":1}']],
      ['many pieces', post('{"a":1}').split(/(?<=\n|a)/)],
      ['one byte at a time', [...post('later5').slice(0, 40), post('later5').slice(40)]],
      ['empty lines before the request', [`\r\n\r\n${post('1')}`]],
      ['a body of more bytes than a point pays for', [post('x'.repeat(70_000))]],
      [
        'a body of one point in two pieces',
        [post('x'.repeat(65_536)).slice(0, 9_000), 'x'.repeat(56_650)],
      ],
      ['an origin', [post('1', ['origin: https://a.example'])]],
      ['an origin with restricted CORS', [post('1', ['origin: https://app.example'])], browsers],
      ['no origin with restricted CORS', [post('1')], browsers],
      ['a minimum flashblock', [post('1', ['X-Min-Flashblock: 7:1:']) + post('2')]],
      ['two minimum flashblocks', [post('1', ['x-min-flashblock: 7:1', 'x-min-flashblock: 8:1'])]],
      ['a trusted proxy', [post('1', ['x-forwarded-for: 6.6.6.6, 5.5.5.5']) + post('2')], proxied],
      ['an untrusted proxy', [post('1', ['x-forwarded-for: 6.6.6.6'])]],
      [
        'a compressed response',
        [post('long', ['accept-encoding: gzip;q=0.5, br']) + post('long') + post('2')],
      ],
      [
        'a compressed response with restricted CORS',
        [post('long', ['Accept-Encoding: gzip'])],
        browsers,
      ],
      ['a compressed response in parts', [post('large', ['accept-encoding: zstd']) + post('2')]],
      [
        'two accept-encoding headers',
        [post('long', ['accept-encoding: x', 'accept-encoding: gzip'])],
      ],
      ['the content type json-rpc', [post('1', [], HEAD.replace('json', 'json-rpc')) + post('2')]],
      [
        'the content type jsonrequest in mixed case',
        [post('1', [], HEAD.replace('json', 'JSONRequest; a=b')) + post('2')],
      ],
      ['an empty host', [post('1', [], HEAD.replace('localhost', '')) + post('2')]],
      ['a wrong content type', [post('1', [], HEAD.replace('json', 'xml'))]],
      ['a query', [post('1', [], HEAD.replace('/ ', '/?a=b '))]],
      ['a content encoding', [post('1', ['content-encoding: identity'])]],
      ['another host', [post('1', [], HEAD.replace('localhost', 'evil.example'))]],
      ['no host', [post('1', [], HEAD.replace('host: localhost\r\n', ''))]],
      ['two host headers', [post('1', ['host: localhost'])]],
      ['two different lengths', [post('11', ['content-length: 1'])]],
      ['two equal lengths', [post('11', ['content-length: 2'])]],
      ['a length with a sign', [post('1').replace('h: 1', 'h: +1')]],
      ['a length and chunks', [post('0\r\n\r\n', ['transfer-encoding: chunked'])]],
      ['chunks', [`${HEAD}transfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n`]],
      [
        'chunks after a plain request',
        [`${post('later9')}${HEAD}transfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n`],
      ],
      ['an expectation', [post('1', ['expect: 100-continue'])]],
      ['an unknown expectation after a plain request', [post('later9') + post('1', ['expect: x'])]],
      ['HTTP 1.0', [post('1', [], HEAD.replace('1.1', '1.0'))]],
      [
        'HTTP 1.0 with keep-alive',
        [post('1', ['connection: keep-alive'], HEAD.replace('1.1', '1.0'))],
      ],
      [
        'the last request of a connection',
        [post('1') + post('later9', ['connection: close']) + post('3')],
      ],
      ['invalid HTTP after a plain request', [post('1'), 'nonsense\r\n\r\n']],
      ['a space before a colon', [post('1', ['x : y'])]],
      ['lines without a carriage return', [post('1').replaceAll('\r\n', '\n')]],
      ['a folded header', [post('1', ['x: a', ' b'])]],
      ['many headers', [post('1', Array(100).fill('x: y')) + post('2')]],
      ['a head that is too long', [post('1', [`x: ${'y'.repeat(20_000)}`])]],
      ['a long head', [post('1', [`x: ${'y'.repeat(9_000)}`])]],
      [
        'more requests than a connection may have',
        [post('1').repeat(5)],
        { limits: { requestsPerSocket: 3 } },
      ],
      ['a client that closes its writing side', [post('1')], {}, true],
      ['a client that closes its writing side before the response', [post('later30')], {}, true],
      ['half a head, then the end', [post('1') + post('1').slice(0, 30)], {}, true],
      ['half a body, then the end', [post('1').slice(0, -1)], {}, true],
      ['nothing, then the end', [''], {}, true],
      ['an empty line, then the end', ['\r\n'], {}, true],
      ['an upgrade to HTTP/2', [post('1', ['connection: upgrade', 'upgrade: h2c'])]],
    ]
  test.each(cases)(
    'get the same bytes as over Node: %s',
    async (_, pieces, options = {}, isEnded = false) => {
      const texts: string[] = []
      for (const http of ['node', 'llhttp'] as const) {
        const { port } = await start({ respond, ...options, http })
        texts.push(await exchange(port, isEnded ? pieces : [...pieces, LAST], isEnded))
      }
      expect(normalised(texts[1]!)).toEqual(normalised(texts[0]!))
    },
  )
})

test('malformed HTTP gets its refusal after the late response to the request before', async () => {
  const { port } = await start({ respond })
  const said = await talk(port, `${post('later9')}nonsense\r\n\r\n`)
  expect(said.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400'])
})

test.each<[string, string, number]>([
  ['plain requests only', post('1') + post('2'), 2],
  ['an unusual request first', post('1', ['expect: 100-continue']) + post('2'), 0],
  [
    'an unusual request later',
    post('1') + post('2') + post('3', ['te: x', 'trailer: x']) + post('4'),
    2,
  ],
])('the fast path takes plain requests until the first unusual one: %s', async (_, text, count) => {
  const seen: Client[] = []
  const { port } = await start({
    respond(body, client) {
      seen.push(client)
      return responseOf(body, client)
    },
  })
  await talk(port, text + LAST)
  expect(seen.filter((client) => client instanceof PlainExchange)).toHaveLength(count)
  expect(seen.every((client) => client.isGone)).toBe(true)
  expect(seen.every((client) => client.signal.aborted)).toBe(true)
})

test('a draining server answers requests in flight and refuses new ones', async () => {
  const release = Promise.withResolvers<void>()
  const { server, port } = await start({
    async respond(body, client) {
      await release.promise
      return responseOf(body, client)
    },
  })
  const socket = await openRaw(port)
  let said = ''
  socket.on('data', (chunk) => {
    said += chunk
  })
  socket.write(post('1'))
  await expect.poll(() => server.inFlight).toBe(1)
  const drained = server.drain(5_000)
  socket.write(post('2'))
  await nextTurn()
  release.resolve()
  await drained
  await once(socket, 'close')
  expect(said.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 503'])
})

test('the bytes of incomplete requests count, and the largest one is cut', async () => {
  const limits = { bodiesBytes: 120_000, bodiesBytesPerClient: 100_000 }
  const { port } = await start({ respond, limits })
  const half = await openRaw(port)
  let said = ''
  half.on('data', (chunk) => {
    said += chunk
  })
  half.write(post('x'.repeat(60_000)).slice(0, -1_000))
  const more = await openRaw(port)
  more.on('data', (chunk) => {
    said += chunk
  })
  more.write(post('x'.repeat(60_000)).slice(0, -1_000))
  await expect.poll(() => said).toMatch(/^HTTP\/1.1 503 [\s\S]*too many bytes are being/)
  half.destroy()
  more.destroy()
})

test('the timeout of a slow body does not restart when Node takes over', async () => {
  const { port, server } = await start({ limits: { headersMs: 600, requestMs: 1_200 } })
  const spent = spending()
  const socket = await openRaw(port)
  const closed = once(socket.resume(), 'close')
  socket.write(`${HEAD}content-length: 100\r\n\r\n`)
  // The pieces exceed the number that is retained.
  const sip = setInterval(() => socket.write('x'), 20)
  await closed
  clearInterval(sip)
  expect(server.sockets.late).toBe(1)
  expect(spent()).toBeLessThan(2_300)
})

test('requests of a client that reads no responses wait', async () => {
  const text = `"${'x'.repeat(200_000)}"`
  let requested = 0
  const { port, server } = await start({
    respond() {
      requested++
      return { text, status: 200, headers: {} }
    },
  })
  const socket = await openRaw(port)
  socket.pause()
  const timer = setInterval(() => socket.write(post('1')), 1)
  await expect.poll(() => server.unsent.responses).toBeGreaterThan(0)
  const before = requested
  for (let turn = 0; turn < 50; turn++) await nextTurn()
  expect(requested).toBeLessThanOrEqual(before + 1)
  clearInterval(timer)
  socket.resume()
  await expect.poll(() => server.unsent.responses).toBe(0)
  expect(requested).toBeGreaterThan(before)
  socket.destroy()
})
