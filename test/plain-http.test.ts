/** Plain requests: that Node reads them alike, and what becomes of a connection that sends something else. */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer as createNetServer } from 'node:net'
import { JsonRpcProvider } from 'ethers'
import fc from 'fast-check'
import { createPublicClient, http } from 'viem'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { trustedProxies } from '../rpc/address.ts'
import type { Answerer } from '../rpc/exchange.ts'
import { createPlainReader } from '../rpc/plain-request.ts'
import { openRaw, readResponse, startServer, talk } from './fixtures/sockets.ts'

const plain = (body: string, path = '/', more = '') =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n${more}` +
  `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

describe('what is recognised', () => {
  const read = createPlainReader({ bodyBytes: 100, isAnyOrigin: true, isHostAllowed: () => true })
  const of = (text: string) => read(Buffer.from(text))

  test('a whole request, with its body and the address it was forwarded for', () => {
    expect(of(plain('{"ü":1}', '/flashblocks', 'X-Forwarded-For: 1.2.3.4, 5.6.7.8\r\n'))).toEqual({
      endpoint: 'flashblocks',
      forwardedFor: '1.2.3.4, 5.6.7.8',
      body: '{"ü":1}',
    })
    expect(of(plain('', '/', 'Connection: Keep-Alive\r\n'))?.body).toBe('')
  })

  test.each(['application/json; charset=utf-8', 'Application/JSON;charset=UTF-8'])(
    'type %s',
    (type) => {
      expect(of(plain('1').replace('application/json', type))?.body).toBe('1')
    },
  )

  test('what viem, ethers and fetch send', async () => {
    const seen: boolean[] = []
    const bare = createNetServer((socket) =>
      socket.on('data', (bytes) => {
        seen.push(read(bytes) !== undefined)
        const id = /"id":(\d+)/.exec(bytes.toString())?.[1]
        const text = `{"jsonrpc":"2.0","id":${id},"result":"0xc4"}`
        socket.end(
          `HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\nconnection: close\r\n\r\n${text}`,
        )
      }),
    ).listen(0, '127.0.0.1')
    await once(bare, 'listening')
    const url = `http://127.0.0.1:${(bare.address() as AddressInfo).port}`
    expect(await createPublicClient({ transport: http(url) }).getChainId()).toBe(196)
    const ethers = new JsonRpcProvider(url, 196, { staticNetwork: true })
    expect(await ethers.getBlockNumber()).toBe(196)
    ethers.destroy()
    const headers = { 'content-type': 'application/json' }
    await fetch(url, { method: 'POST', headers, body: '{"id":1}' })
    expect(seen).toEqual([true, true, true])
    bare.close()
  })

  test.each([
    ['another method', plain('1').replace('POST', 'PUT')],
    ['another path', plain('1', '/foo')],
    ['a query', plain('1', '/?x=1')],
    ['an absolute target', plain('1', 'http://localhost/')],
    ['another version', plain('1').replace('1.1', '1.0')],
    ['no host', plain('1').replace('Host: localhost\r\n', '')],
    ['another type', plain('1').replace('/json', '/xml')],
    ['another charset', plain('1').replace('/json', '/json; charset=latin1')],
    ['no type', plain('1').replace(/content-type[^\n]*\n/, '')],
    ['no length', plain('1').replace(/content-length[^\n]*\n/, '')],
    ['two lengths', plain('1', '/', 'Content-Length: 1\r\n')],
    ['a signed length', plain('1').replace('length: 1', 'length: +1')],
    ['a hexadecimal length', plain('1').replace('length: 1', 'length: 0x1')],
    ['a list of lengths', plain('1').replace('length: 1', 'length: 1, 1')],
    ['chunks', plain('1', '/', 'Transfer-Encoding: chunked\r\n')],
    ['chunks, oddly written', plain('1', '/', 'Transfer-Encoding : chunked\r\n')],
    ['an encoded body', plain('1', '/', 'Content-Encoding: gzip\r\n')],
    ['an expectation', plain('1', '/', 'Expect: 100-continue\r\n')],
    ['an upgrade', plain('1', '/', 'Upgrade: websocket\r\n')],
    ['the last request', plain('1', '/', 'Connection: close\r\n')],
    ['a folded line', plain('1', '/', 'X-A: 1\r\n 2\r\n')],
    ['a lone line feed', plain('1', '/', 'X-A: 1\nX-B: 2\r\n')],
    ['a lone carriage return', plain('1', '/', 'X-A: 1\rX-B: 2\r\n')],
    ['an empty value', plain('1', '/', 'X-A:\r\n')],
    ['a control character', plain('1', '/', 'X-A: \u0000\r\n')],
    ['a character beyond ASCII', plain('1', '/', 'X-A: ü\r\n')],
    ['a name with a space', plain('1', '/', 'X A: 1\r\n')],
    ['a line before it', `\r\n${plain('1')}`],
    ['a part of it', plain('1').slice(0, -1)],
    ['a part of its head', plain('1').slice(0, 60)],
    ['more than it', `${plain('1')}1`],
    ['two of them', plain('1') + plain('1')],
    ['a body too large', plain('x'.repeat(101))],
    ['a head too large', plain('1', '/', `X-A: ${'x'.repeat(2_048)}\r\n`)],
  ])('not %s', (_, text) => {
    expect(of(text)).toBe(undefined)
  })

  test('not a host or an origin that has to be looked at', () => {
    const strict = createPlainReader({
      bodyBytes: 100,
      isAnyOrigin: false,
      isHostAllowed: (host) => host === 'localhost',
    })
    expect(strict(Buffer.from(plain('1')))).toBeDefined()
    expect(strict(Buffer.from(plain('1', '/', 'Origin: null\r\n')))).toBe(undefined)
    expect(strict(Buffer.from(plain('1').replace('localhost', 'evil')))).toBe(undefined)
  })

  test('is one and the same request to Node', async () => {
    const seen: string[] = []
    const node = createHttpServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const { url, headers } = request
        const forwardedFor = headers['x-forwarded-for']
        seen.push(JSON.stringify([url, forwardedFor ?? null, Buffer.concat(chunks).toString()]))
        response.end()
      })
    }).listen(0, '127.0.0.1')
    await once(node, 'listening')
    const { port } = node.address() as AddressInfo
    // Usual requests, with unusual fields, and with something else at any place.
    const field = fc.constantFrom(
      ...['Accept: */*', 'X-A:1', 'X-B:\t1 2 ', 'Connection: keep-alive', 'CONNECTION: Keep-Alive'],
      ...['X-Forwarded-For: 1.2.3.4', 'Connection: close', 'Expect: 100-continue', 'TE: trailers'],
      ...['Transfer-Encoding: chunked', 'Content-Length: 2', 'content-length:\t02', 'Host: b'],
    )
    const piece = fc.oneof(
      field,
      fc.constantFrom(
        '\r\n',
        '\n',
        '\r',
        ':',
        ' ',
        '\t',
        ',',
        '0',
        '\u0000',
        'ü',
        'HTTP/1.0',
        'GET',
      ),
      fc.string({ maxLength: 2 }),
    )
    const edit = fc.record({ at: fc.nat(), cut: fc.nat({ max: 3 }), put: piece })
    const request = fc
      .record({
        path: fc.constantFrom('/', '/flashblocks'),
        type: fc.constantFrom('Content-Type: application/json', 'content-type:application/json\t'),
        length: fc.constantFrom('Content-Length: 2', 'CONTENT-LENGTH:002'),
        more: fc.uniqueArray(field, { maxLength: 2 }),
        body: fc.constantFrom('{}', '[]', '{}', '{', '{}0'),
        edits: fc.array(edit, { maxLength: 1 }),
      })
      .map(({ path, type, length, more, body, edits }) => {
        const fields = ['Host: localhost', ...more, type, length].map((line) => `${line}\r\n`)
        const text = `POST ${path} HTTP/1.1\r\n${fields.join('')}\r\n${body}`
        return edits.reduce((edited, { at, cut, put }) => {
          const from = at % edited.length
          return edited.slice(0, from) + put + edited.slice(from + cut)
        }, text)
      })
    let recognised = 0
    await fc.assert(
      fc.asyncProperty(request, async (text) => {
        const found = of(text)
        if (found === undefined) return
        recognised++
        seen.length = 0
        const socket = await openRaw(port)
        socket.write(text)
        expect((await readResponse(socket)).status).toBe(200)
        socket.destroy()
        const { endpoint, forwardedFor, body } = found
        const url = endpoint === 'standard' ? '/' : '/flashblocks'
        expect(seen).toEqual([JSON.stringify([url, forwardedFor ?? null, body])])
      }),
      { numRuns: 500 },
    )
    expect(recognised).toBeGreaterThan(50)
    node.close()
  })
})

describe('a connection', () => {
  let port: number
  let close: () => Promise<void>
  /** Answers in the order of their release, by body. */
  const waiting = new Map<string, () => void>()
  const answer: Answerer = async (body, { address }) => {
    if (body.startsWith('"wait')) await new Promise<void>((resolve) => waiting.set(body, resolve))
    return { text: JSON.stringify([body, address]), status: 200, headers: {} }
  }
  beforeAll(async () => {
    const limits = { requestsPerSocket: 3 }
    const proxies = trustedProxies(['127.0.0.0/8'])
    const started = await startServer({ answer, limits, trustedProxies: proxies })
    port = started.port
    close = () => started.server.close()
  })
  afterAll(() => close())
  const said = async (socket: Awaited<ReturnType<typeof openRaw>>) =>
    (JSON.parse((await readResponse(socket)).body) as string[])[0]
  const GET = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'

  test('is answered wherever its bytes are cut', async () => {
    const text = plain('{"a":"ü"}')
    const bytes = Buffer.from(text)
    for (let at = 1; at < bytes.length; at += 7) {
      const socket = await openRaw(port)
      socket.setNoDelay(true)
      socket.write(bytes.subarray(0, at))
      await new Promise(setImmediate)
      socket.write(bytes.subarray(at))
      expect(await said(socket)).toBe('{"a":"ü"}')
      socket.write(plain('again'))
      expect(await said(socket)).toBe('again')
      socket.destroy()
    }
  })

  test('is told how long it may go on, and that it is over', async () => {
    const socket = await openRaw(port)
    const connections: (string | undefined)[] = []
    for (const body of ['1', '2', '3']) {
      socket.write(plain(body))
      const { headers } = await readResponse(socket)
      connections.push(headers['connection'], headers['keep-alive'])
    }
    const kept = ['keep-alive', 'timeout=65, max=3']
    expect(connections).toEqual([...kept, ...kept, 'close', undefined])
    socket.resume()
    await once(socket, 'close')
  })

  test('gets its answers in order, what follows an unfinished one included', async () => {
    const socket = await openRaw(port)
    socket.write(plain('"wait a"'))
    await expect.poll(() => waiting.has('"wait a"')).toBe(true)
    socket.write(plain('b'))
    socket.write(plain('c'))
    socket.write(GET)
    waiting.get('"wait a"')!()
    expect([await said(socket), await said(socket), await said(socket)]).toEqual([
      '"wait a"',
      'b',
      'c',
    ])
    expect((await readResponse(socket)).body).toBe('{"status":"alive"}')
  })

  test('that sends two requests at once gets two answers', async () => {
    const socket = await openRaw(port)
    socket.write(plain('a') + plain('b'))
    expect([await said(socket), await said(socket)]).toEqual(['a', 'b'])
    socket.destroy()
  })

  test('counts for the address it was forwarded for', async () => {
    const socket = await openRaw(port)
    socket.write(plain('1', '/', 'X-Forwarded-For: 9.9.9.9\r\n'))
    expect(JSON.parse((await readResponse(socket)).body)).toEqual(['1', '9.9.9.9'])
    socket.destroy()
  })

  test('that says nothing is closed, at once and after an answer', async () => {
    // Only what is to pass is short: a slow machine must not end what is to be answered.
    const silent = await startServer({ answer, limits: { headersMs: 50 } })
    expect(await talk(silent.port, '')).toBe('')
    await silent.server.close()
    const idle = await startServer({ answer, limits: { keepAliveMs: 50 } })
    expect(await talk(idle.port, plain('1'))).toMatch(/^HTTP\/1.1 200 OK\r\n/)
    await idle.server.close()
  })

  test('waits for an answer longer than for a request', async () => {
    const socket = await openRaw(port)
    const closed = once(socket, 'close')
    for (const body of ['"wait 1"', '"wait 2"']) {
      socket.write(plain(body))
      const answered = said(socket)
      const first = Promise.race([answered, closed.then(() => 'closed')])
      setTimeout(() => waiting.get(body)!(), 500)
      expect(await first).toBe(body)
    }
    socket.destroy()
  })

  test('does not outlive the server', async () => {
    const other = await startServer({ answer })
    const socket = await openRaw(other.port)
    socket.write(plain('1'))
    expect(await said(socket)).toBe('1')
    await other.server.close()
    socket.resume()
    await once(socket, 'close')
  })

  test('is refused while the node is paused', async () => {
    const other = await startServer({ answer })
    const socket = await openRaw(other.port)
    socket.write(plain('1'))
    expect(await said(socket)).toBe('1')
    other.server.setPaused('draining')
    socket.write(plain('1'))
    const { status, headers } = await readResponse(socket)
    expect([status, headers['connection'], headers['retry-after']]).toEqual([503, 'close', '1'])
    socket.destroy()
    await other.server.close()
  })
})
