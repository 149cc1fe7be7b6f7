/**
 * llhttp as WebAssembly is compared with llhttp in Node: the read parts of a request, and invalid
 * requests.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { duplexPair } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { INPUT_BYTES, type Outcome, RequestReader } from '../../../rpc/wire/request-reader.ts'
import { mulberry32 } from '../../kit/run-options.ts'

type Read = {
  readonly url: string
  readonly host: string
  readonly forwardedFor: string | undefined
  readonly minFlashblock: string | undefined
  readonly acceptEncoding: string | undefined
  readonly hasOrigin: boolean
  readonly headers: number
  readonly body: string
}
type Reading = { readonly requests: readonly Read[]; readonly rest: Outcome | 'nothing' }

const head = (lines: readonly string[] = [], first = 'POST / HTTP/1.1') =>
  `${[first, 'host: localhost', 'content-type: application/json', ...lines].join('\r\n')}\r\n`
const plain = (body: string, lines: readonly string[] = [], first?: string) =>
  `${head([...lines, `content-length: ${Buffer.byteLength(body)}`], first)}\r\n${body}`

/** Reads all plain requests from the start, and the outcome after them. */
function readAll(reader: RequestReader, bytes: Buffer): Reading {
  const requests: Read[] = []
  for (let at = 0; at < bytes.length; at = reader.end) {
    const outcome = reader.read(bytes, at)
    if (outcome !== 'complete') return { requests, rest: outcome }
    const { url, host, forwardedFor, minFlashblock, acceptEncoding, hasOrigin, headers } = reader
    const body = bytes.toString('latin1', reader.end - reader.bodyBytes, reader.end)
    const requested = { forwardedFor, minFlashblock, acceptEncoding }
    requests.push({ url, host, ...requested, hasOrigin, headers, body })
  }
  return { requests, rest: 'nothing' }
}

describe('the request reader', () => {
  const reader = new RequestReader()
  test('reads everything that a response needs', () => {
    const lines = [
      'Origin: http://a',
      'X-Forwarded-For: 1.2.3.4, 5.6.7.8',
      'X-MIN-Flashblock: 7:1',
      'Accept-Encoding: br',
    ]
    const text = plain('{"a":"ü"}', lines, 'POST /flashblocks HTTP/1.1')
    expect(readAll(reader, Buffer.from(text))).toEqual({
      requests: [
        {
          url: '/flashblocks',
          host: 'localhost',
          forwardedFor: '1.2.3.4, 5.6.7.8',
          minFlashblock: '7:1',
          acceptEncoding: 'br',
          hasOrigin: true,
          headers: 7,
          body: Buffer.from('{"a":"ü"}').toString('latin1'),
        },
      ],
      rest: 'nothing',
    })
  })
  test('knows the length of an incomplete request from its headers', () => {
    const text = Buffer.from(plain('x'.repeat(1_000)))
    for (let length = 0; length < text.length; length++) {
      const outcome = reader.read(text.subarray(0, length), 0)
      const isHead = length < text.length - 1_000
      expect(outcome).toBe(isHead ? 'head' : 'body')
      if (!isHead) expect(reader.end).toBe(text.length)
    }
  })
  test('leaves a request that exceeds its memory to Node', () => {
    expect(reader.read(Buffer.from(plain('x'.repeat(INPUT_BYTES))), 0)).toBe('unusual')
  })
  const unusual: [name: string, text: string][] = [
    ['another method', plain('{}', [], 'PUT / HTTP/1.1')],
    ['an old version', plain('{}', ['connection: keep-alive'], 'POST / HTTP/1.0')],
    ['a long path', plain('{}', [], `POST /${'a'.repeat(20)} HTTP/1.1`)],
    ['another form of target', plain('{}', [], 'POST * HTTP/1.1')],
    ['a connection that closes', plain('{}', ['connection: close'])],
    ['a list of connection options', plain('{}', ['connection: keep-alive, x'])],
    ['an option of a proxy', plain('{}', ['proxy-connection: keep-alive'])],
    ['an upgrade', plain('{}', ['connection: upgrade', 'upgrade: websocket'])],
    ['an upgrade header without the connection option', plain('{}', ['upgrade: h2c'])],
    ['an expectation', plain('{}', ['expect: 100-continue'])],
    ['chunks', `${head(['transfer-encoding: chunked'])}\r\n2\r\n{}\r\n0\r\n\r\n`],
    ['chunks after a length', plain('{}', ['transfer-encoding: identity'])],
    ['trailers', plain('{}', ['trailer: x'])],
    ['a content encoding', plain('{}', ['content-encoding: identity'])],
    ['an API key', plain('{}', ['X-API-Key: k'])],
    ['a bearer token', plain('{}', ['authorization: Bearer k'])],
    ['two hosts', plain('{}', ['host: localhost'])],
    ['two content types', plain('{}', ['content-type: application/json'])],
    [
      'two x-forwarded-for headers',
      plain('{}', ['x-forwarded-for: 1.1.1.1', 'x-forwarded-for: 2.2.2.2']),
    ],
    ['two minimum flashblocks', plain('{}', ['x-min-flashblock: 7:1', 'x-min-flashblock: 8:1'])],
    ['two accept-encoding headers', plain('{}', ['accept-encoding: br', 'accept-encoding: gzip'])],
    ['a space after the host', plain('{}').replace('localhost', 'localhost ')],
    ['an empty host', plain('{}').replace('localhost', '')],
    ['a charset', plain('{}').replace('json', 'json; charset=utf-8')],
    ['another content type', plain('{}').replace('json', 'JSON')],
    ['no content type', plain('{}').replace('content-type', 'x-type')],
    ['no host', plain('{}').replace('host:', 'xost:')],
    ['no content length', `${head()}\r\n`],
    ['a long head', plain('{}', [`x: ${'y'.repeat(8_192)}`])],
    ['a long incomplete head', `${head()}x: ${'y'.repeat(8_192)}`],
    ['65 headers', plain('{}', Array(62).fill('x: y'))],
  ]
  test.each(unusual)('leaves an unusual request to Node: %s', (_, text) => {
    expect(reader.read(Buffer.from(text), 0)).toBe('unusual')
  })
  test('reads the next request normally after a malformed one', () => {
    expect(reader.read(Buffer.from('nonsense\r\n\r\n'), 0)).toBe('refused')
    expect(readAll(reader, Buffer.from(plain('1').repeat(2))).requests).toHaveLength(2)
  })
})

/** Gives Node's result for the same bytes, which come in these pieces. */
async function readByNode(pieces: readonly Buffer[]) {
  const requests: (Read & { readonly isPersistent: boolean; isComplete: boolean })[] = []
  let isRefused = false
  const listen = (request: IncomingMessage, response: ServerResponse) => {
    const { headers, rawHeaders } = request
    const one = {
      url: request.method === 'POST' ? request.url! : `${request.method}`,
      host: headers.host!,
      forwardedFor: headers['x-forwarded-for'] as string | undefined,
      minFlashblock: headers['x-min-flashblock'] as string | undefined,
      acceptEncoding: headers['accept-encoding'] as string | undefined,
      hasOrigin: headers.origin !== undefined,
      headers: rawHeaders.length / 2,
      body: '',
      isComplete: false,
      isPersistent: response.shouldKeepAlive,
    }
    requests.push(one)
    request.on('data', (piece: Buffer) => {
      one.body += piece.toString('latin1')
    })
    request.on('end', () => {
      one.isComplete = true
      response.end()
    })
  }
  const http = createServer(listen)
  http.on('clientError', () => {
    isRefused = true
  })
  const [server, client] = duplexPair()
  client.on('error', () => {}).resume()
  http.emit('connection', server)
  for (const piece of pieces) {
    client.write(piece)
    await nextTurn()
  }
  await nextTurn()
  server.destroy()
  return { requests, isRefused }
}

/** The lines are plain ones, and additions of attackers who look for a gap between two readers. */
const LINES = [
  'Content-Length: 2',
  'Content-Length: +2',
  'Content-Length: 2, 2',
  'Content-Length: 0x2',
  'content-length : 2',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: xchunked',
  'transfer-encoding:\tchunked',
  'Transfer-Encoding : chunked',
  'Connection: keep-alive',
  'Connection: close',
  'Connection: Keep-Alive ',
  'Connection:close',
  'Upgrade: websocket',
  'Expect: 100-continue',
  'Host: other',
  'Host:',
  'x: y',
  'x:',
  ': y',
  ' persisted: line',
  'x: a\r\n b',
  'x\ty: z',
  'X-Forwarded-For: 1.1.1.1',
  'X-Min-Flashblock: 5:5',
  'Origin: null',
  'Accept: */*',
  'Accept-Encoding: gzip, br',
  'User-Agent: python-requests/2.32',
  '__proto__: x',
  'x: \xff\xfe',
  'x: \0',
]
const INSERTED = ['\r', '\n', '\r\n', ' ', '\t', ':', ',', '\0', '\xff', '0', 'a', '{', ';', '-']
const FIRST = [
  'POST / HTTP/1.1',
  'POST / HTTP/1.0',
  'POST /flashblocks HTTP/1.1',
  'post / HTTP/1.1',
  'POST  / HTTP/1.1',
  'POST /\tHTTP/1.1',
  'GET / HTTP/1.1',
  'POST / HTTP/1.2',
  'POST / HTTP/2.0',
  'POST http://a/ HTTP/1.1',
]

function mutated(random: () => number): Buffer {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!
  const at = (text: string) => Math.floor(random() * (text.length + 1))
  const request = () => {
    const lines = Array.from({ length: Math.floor(random() * 3) }, () => pick(LINES))
    const isPlain = random() < 0.5
    const body = pick(['{}', '{"id":1}', '', 'ü', '\r\n\r\n', 'POST / HTTP/1.1\r\n'])
    return plain(body, isPlain ? [] : lines, isPlain || random() < 0.7 ? undefined : pick(FIRST))
  }
  let text = Array.from({ length: 1 + Math.floor(random() * 3) }, request).join('')
  for (let changes = Math.floor(random() * 3); changes > 0; changes--) {
    const from = at(text)
    const kinds = [
      () => text.slice(0, from) + pick(INSERTED) + text.slice(from),
      () => text.slice(0, from) + text.slice(from + 1),
      () => text.slice(0, from) + pick(INSERTED) + text.slice(from + 1),
      () => text.slice(0, from),
      () => text.replaceAll('\r\n', '\n'),
      () => `\r\n${text}`,
      () => text.slice(0, from) + text.slice(from).toUpperCase(),
      () => text + text.slice(from),
    ]
    text = pick(kinds)()
  }
  return Buffer.from(text, 'latin1')
}

/**
 * llhttp 9.4 of Node accepts a tab after a length, 9.3 does not. Node decides about such refused
 * requests.
 */
const STRICTER = /content-length:[^\r\n]*\t/i

describe('the request reader and Node', () => {
  const COUNT = 10_000
  const random = mulberry32(42)
  const reader = new RequestReader()
  const seen: Record<string, number> = {}
  test('agree on 10,000 mutated requests: validity, body ends and keep-alive', async () => {
    for (let run = 0; run < COUNT; run++) {
      const bytes = mutated(random)
      const cut = Math.floor(random() * bytes.length)
      const { requests, rest } = readAll(reader, bytes)
      const node = await readByNode([bytes.subarray(0, cut), bytes.subarray(cut)])
      seen[rest] = (seen[rest] ?? 0) + 1
      seen['read'] = (seen['read'] ?? 0) + requests.length
      const first = node.requests.slice(0, requests.length)
      const message = JSON.stringify(bytes.toString('latin1'))
      const full = requests.map((one) => ({ ...one, isComplete: true, isPersistent: true }))
      expect(first, message).toEqual(full)
      const isStricter = rest === 'refused' && STRICTER.test(bytes.toString('latin1'))
      if (rest === 'unusual' || isStricter) continue
      const more = node.requests.slice(requests.length)
      expect(node.isRefused, message).toBe(rest === 'refused')
      expect(more.length, message).toBe(rest === 'body' ? 1 : 0)
      expect(more[0]?.isComplete ?? false, message).toBe(false)
    }
    for (const outcome of ['nothing', 'head', 'body', 'unusual', 'refused'])
      expect(seen[outcome], outcome).toBeGreaterThan(COUNT / 100)
    expect(seen['read']).toBeGreaterThan(COUNT / 2)
  })
})
