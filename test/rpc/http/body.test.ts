/**
 * Request bodies arrive over real sockets. The tests check their charges, their limits, and the
 * handling of clients that send too much.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Responder } from '../../../rpc/core/exchange.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { createLimiter, type Limiter } from '../../../rpc/limiter/limiter.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { openSocket, startServer } from '../../fixtures/sockets.ts'

async function later<T>(value: T): Promise<Awaited<T>> {
  for (let turns = 0; turns < 50; turns++) await new Promise((resolve) => setImmediate(resolve))
  return await value
}
type Charged = { address: string; points: number }
const open: Server[] = []
afterAll(() => Promise.all(open.map((server) => server.close())))

/**
 * Starts a server that responds with the points paid for a body, and records the requests to its
 * limiter.
 */
async function watched(
  options: {
    perSecond?: number
    limits?: object
    now?: () => number
    /** The limiter responds some turns of the loop later. */
    isLate?: boolean
  } = {},
) {
  const charges: Charged[] = []
  const limiter = createLimiter({
    perSecond: options.perSecond ?? 1_000,
    keys: 10,
    now: () => Date.now(),
  })
  const recordingLimiter: Pick<Limiter, 'charge' | 'throttled' | 'owe'> = {
    owe: (address, points) => limiter.owe(address, points),
    throttled: (address) => limiter.throttled(address),
    charge(address, points) {
      charges.push({ address, points })
      const charged = limiter.charge(address, points)
      return options.isLate === true ? later(charged) : charged
    },
  }
  const respond: Responder = (body, _client, prepaid) => ({
    text: JSON.stringify({ characters: body.length, prepaid: prepaid?.points }),
    status: 200,
    headers: {},
  })
  const { limits = {}, now = () => performance.now() } = options
  const started = await startServer({ respond, limiter: recordingLimiter, limits, now })
  open.push(started.server)
  return { ...started, charges, limiter }
}

const HEAD = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
const chunksOf = (text: string, bytes: number) => {
  const chunks: string[] = []
  for (let at = 0; at < text.length; at += bytes) {
    const chunk = text.slice(at, at + bytes)
    chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`)
  }
  return `${chunks.join('')}0\r\n\r\n`
}
const chunked = (text: string, bytes: number) =>
  `${HEAD}transfer-encoding: chunked\r\n\r\n${chunksOf(text, bytes)}`

/**
 * Sends the text unchanged; gives everything that comes until the end, or until `until` matches.
 */
async function exchange(port: number, text: string, until?: RegExp): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  return receive(socket, until)
}
function receive(socket: Socket, until?: RegExp): Promise<string> {
  return new Promise((resolve) => {
    let said = ''
    socket.on('data', (piece) => {
      said += piece
      if (until?.test(said) === true) socket.destroy()
    })
    socket.once('close', () => resolve(said))
  })
}
const sum = (all: readonly Charged[]) => all.reduce((total, { points }) => total + points, 0)

function post(port: number, body: string | Buffer): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const sent = request({ port, host: '127.0.0.1', method: 'POST', headers }, (response) => {
      let text = ''
      response.on('data', (piece) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode!, text }))
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

describe('a request body', () => {
  const cases: [name: string, bytes: number, prepaid: number][] = [
    ['nothing', 0, 0],
    ['as many bytes as a point pays for', 65_536, 0],
    ['one byte more than a point pays for', 65_537, 1],
    ['a megabyte', 1_000_000, 15],
    ['the maximum size', 2_000_000, 30],
  ]
  test.each(cases)('is charged by its size while it arrives: %s', async (_name, bytes, prepaid) => {
    const { port, charges } = await watched()
    const { text } = await post(port, 'x'.repeat(bytes))
    expect(JSON.parse(text)).toEqual({ characters: bytes, prepaid })
    expect(sum(charges)).toBe(prepaid)
  })
  test('is charged in chunks, without a known length', async () => {
    const { port, charges } = await watched()
    const said = await exchange(port, chunked('x'.repeat(200_000), 20_000), /paid/)
    expect(said).toContain('{"characters":200000,"prepaid":3}')
    expect(sum(charges)).toBe(3)
  })
  test('in many small pieces costs as much as a large one', async () => {
    const { port } = await watched()
    const said = await exchange(port, chunked('x'.repeat(510), 1), /paid/)
    expect(said).toContain('{"characters":510,"prepaid":3}')
  })
  test('is charged by its bytes, not by its characters', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 10, now: () => Date.now() })
    const rpc = testRpc({ limiter })
    const { server, port } = await startServer({ respond: rpc.respond, limiter })
    open.push(server)
    const long = (letters: number) =>
      `{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion","params":["${'ü'.repeat(letters)}"]}`
    // 60,000 letters cost two points as bytes and one as text.
    for (const [at, letters] of [10, 60_000, 60_000].entries()) {
      await post(port, long(letters))
      expect(limiter.charged).toBe([1, 3, 5][at])
    }
    const socket = await openSocket(`ws://127.0.0.1:${port}`)
    socket.send(long(34_000))
    await socket.next()
    expect(limiter.charged).toBe(7)
    socket.close()
  })
  test('is decoded correctly when pieces cut a character of several bytes', async () => {
    const { port } = await watched()
    const text = 'ü€😀'.repeat(20_000)
    const { text: said } = await post(port, text)
    expect(JSON.parse(said)).toEqual({ characters: text.length, prepaid: 2 })
  })
})

describe('a body', () => {
  test('beyond the points of its client is refused unread and costs nothing', async () => {
    const { port, limiter } = await watched({ perSecond: 20 })
    const head = `${HEAD}content-length: 2000000\r\n\r\n`
    const said = await exchange(port, `${head}${'x'.repeat(1_000)}`, /\}\}$/)
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(said).toContain('"code":-32005')
    expect(said).toContain('connection: close')
    expect(limiter.charged).toBe(0)
  })
  /** Collects the server's sockets of connections that are accepted from now on. */
  function accepted(): Socket[] {
    const sockets: Socket[] = []
    const record = (message: unknown) => void sockets.push((message as { socket: Socket }).socket)
    subscribe('net.server.socket', record)
    onTestFinished(() => void unsubscribe('net.server.socket', record))
    return sockets
  }
  const TWO_READS = 2 * 65_536
  test.each([
    ['at once', false],
    ['by a store that responds later', true],
  ])('beyond the points of its client stays unread, refused %s', async (_name, isLate) => {
    const sockets = accepted()
    const { port, limiter } = await watched({ perSecond: 20, isLate })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`${HEAD}content-length: 2000000\r\n\r\n`)
    socket.write(Buffer.alloc(2_000_000, ' '))
    const said = await receive(socket)
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(said).toContain('"reason":"rate"')
    expect(sockets).toHaveLength(1)
    expect(sockets[0]!.bytesRead).toBeLessThanOrEqual(TWO_READS)
    expect(limiter.charged).toBe(0)
  })
  test('in chunks is read only while its client has points', async () => {
    const sockets = accepted()
    const { port } = await watched({ perSecond: 4 })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(chunked('x'.repeat(1_900_000), 50_000))
    expect(await receive(socket)).toMatch(/^HTTP\/1.1 429 /)
    expect(sockets[0]!.bytesRead).toBeLessThanOrEqual(5 * 65_536 + TWO_READS)
  })
  test('in chunks that use up the points is refused, and charged for what was read', async () => {
    const { port, limiter } = await watched({ perSecond: 5 })
    const said = await exchange(port, chunked('x'.repeat(600_000), 50_000), /\}\}/)
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(limiter.charged).toBe(5)
  })
  test('in too many pieces closes the connection, and is charged for what was read', async () => {
    const { port, charges } = await watched()
    const said = await exchange(port, chunked('x'.repeat(1_000_000), 1))
    expect(said === '' || said.includes('body in too many pieces')).toBe(true)
    expect(sum(charges)).toBe(7)
  })
  describe('from a client that sends too many pieces', () => {
    const shattered = chunked('x'.repeat(10_000), 1)
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    /** Starts a server whose clock the test moves. */
    async function clocked() {
      let time = 1
      const started = await watched({ limits: { cutOffMs: 5_000 }, now: () => time })
      const pass = (ms: number) => {
        time += ms
      }
      return { ...started, pass }
    }
    async function open(port: number, localAddress?: string): Promise<Socket> {
      const socket = connect({ port, host: '127.0.0.1', ...(localAddress && { localAddress }) })
      socket.on('error', () => {})
      await once(socket, 'connect')
      return socket
    }

    test('closes its own connection the first time, and no other', async () => {
      const { port, server } = await clocked()
      const idle = await open(port)
      await exchange(port, shattered)
      idle.write(one)
      expect(String(await once(idle, 'data'))).toContain('"characters":2')
      idle.destroy()
      expect(await exchange(port, one, /paid/)).toContain('"characters":2')
      const health = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n'
      expect(await exchange(port, health, /alive/)).toContain('200 OK')
      expect(server.sockets.cutOff).toBe(0)
    })
    test('cuts its client off for five seconds if it is the second in five seconds', async () => {
      const { port, server, pass } = await clocked()
      const idle = await open(port)
      const other = await open(port, '127.0.0.9')
      const isClosed = once(idle, 'close')
      await exchange(port, shattered)
      pass(4_999)
      await exchange(port, shattered)
      await isClosed
      expect(server.sockets.cutOff).toBe(1)
      expect(await exchange(port, one, /paid/)).toBe('')
      other.write(one)
      expect(String(await once(other, 'data'))).toContain('"characters":2')
      other.destroy()
      pass(5_000)
      expect(await exchange(port, one, /paid/)).toContain('"characters":2')
    })
    test('does not cut its client off if the first one was five seconds earlier', async () => {
      const { port, server, pass } = await clocked()
      await exchange(port, shattered)
      pass(5_000)
      await exchange(port, shattered)
      expect(await exchange(port, one, /paid/)).toContain('"characters":2')
      expect(server.sockets.cutOff).toBe(0)
    })
  })
  test('in an unknown encoding is refused, but does not count as a flood', async () => {
    const { port, server } = await watched()
    const head = `${HEAD}content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n`
    expect(await exchange(port, `${head}1\r\nx\r\n`)).toMatch(/^HTTP\/1.1 415 /)
    expect(server.sockets.cutOff).toBe(0)
    expect((await post(port, '{}')).status).toBe(200)
  })
  test('too large and above the rate gets 429, and is charged for what was read', async () => {
    const { port, limiter } = await watched({ perSecond: 4, limits: { bodyBytes: 300_000 } })
    const said = await exchange(port, chunked('x'.repeat(400_000), 20_000))
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(limiter.charged).toBe(4)
  })
  test('announced as too large is charged for the bytes that arrive', async () => {
    const { port, charges } = await watched({ perSecond: 20 })
    const head = `${HEAD}content-length: 4000000\r\n\r\n`
    const said = await exchange(port, `${head}${'x'.repeat(200_000)}`, /\}\}/)
    expect(said).toMatch(/^HTTP\/1.1 413 /)
    expect(sum(charges)).toBeLessThanOrEqual(4)
  })
  test('in chunks with one byte too many gets 413, not 429', async () => {
    const { port, limiter } = await watched({ perSecond: 100 })
    await limiter.charge('127.0.0.1', 60)
    const body = chunked('x'.repeat(2_000_001), 50_000)
    expect(await exchange(port, body, /\}\}/)).toMatch(/^HTTP\/1.1 413 /)
    expect(limiter.charged).toBe(60 + 31)
  })
  test('that goes on after its refusal is charged, and unread without points', async () => {
    const { port, limiter, charges } = await watched({ perSecond: 10 })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const isOver = receive(socket)
    socket.write(`${HEAD}content-length: 4000000\r\n\r\n`)
    await once(socket, 'data')
    let sent = 0
    const more = setInterval(() => {
      sent += 100_000
      socket.write('x'.repeat(100_000))
    }, 1)
    await isOver
    clearInterval(more)
    expect(sent).toBeGreaterThan(500_000)
    expect(sum(charges)).toBeGreaterThan(10)
    expect(limiter.charged).toBeLessThanOrEqual(10)
  })
  test('with an unknown expectation is refused like any other', async () => {
    const { port, server } = await watched()
    const one = `${HEAD}expect: 100ontinue\r\ncontent-length: 2\r\n\r\n{}`
    const all = one.repeat(3) + one.replace('100ontinue', '100-continue')
    const said = await exchange(port, all, /paid/)
    expect([...said.matchAll(/HTTP\/1.1 (\d+) /g)].map((match) => match[1])).toEqual([
      '417',
      '417',
      '417',
      '100',
      '200',
    ])
    for (let time = 0; time < 2; time++) {
      expect(server.sockets.cutOff).toBe(0)
      await exchange(port, one.repeat(1_000))
    }
    expect(server.sockets.cutOff).toBe(1)
  })
  test('in few pieces still cuts its client off with too many others at once', async () => {
    const { port, server } = await watched({ limits: { requestsPerTurn: 1, bodyPieces: 100 } })
    const few = chunked('x'.repeat(60), 1)
    expect(await exchange(port, few.repeat(3), /(?:paid[\s\S]*){3}/)).toContain('200')
    expect(server.sockets.cutOff).toBe(0)
    for (let time = 0; time < 2; time++) {
      expect(server.sockets.cutOff).toBe(0)
      await exchange(port, few.repeat(100))
    }
    expect(server.sockets.cutOff).toBe(1)
  })
  test('in pieces of a kilobyte is always accepted', async () => {
    const { port } = await watched()
    const said = await exchange(port, chunked('x'.repeat(1_900_000), 1_024), /paid/)
    expect(said).toContain('"characters":1900000')
  })
  test('in pieces of a kilobyte is accepted, however many arrive in one turn', async () => {
    const { port, server } = await watched({ limits: { bodyPieces: 10 } })
    for (let time = 0; time < 20; time++) {
      const said = await exchange(port, chunked('x'.repeat(60_000), 1_024), /paid/)
      expect(said).toContain('"characters":60000')
    }
    expect(server.sockets.cutOff).toBe(0)
  })
  test('in chunks above the maximum size gets 413', async () => {
    const { port } = await watched({ limits: { bodyBytes: 100_000 } })
    const said = await exchange(port, chunked('x'.repeat(300_000), 10_000), /\}\}/)
    expect(said).toMatch(/^HTTP\/1.1 413 /)
    expect(said).toContain('content length too large')
  })
  test('gets 503 above the bytes that its client may have in flight', async () => {
    const limits = { bodiesBytesPerClient: 300_000 }
    const { port } = await watched({ limits })
    const half = connect(port, '127.0.0.1')
    half.on('error', () => {})
    half.write(`${HEAD}content-length: 250000\r\n\r\n${'x'.repeat(200_000)}`)
    await once(half, 'connect')
    for (;;) {
      const said = await exchange(
        port,
        `${HEAD}content-length: 200000\r\n\r\n${'x'.repeat(150_000)}`,
        /\}\}?$/,
      )
      // The bytes of the first connection may not have arrived yet.
      if (said.startsWith('HTTP/1.1 503')) break
      expect(said).toBe('')
    }
    half.destroy()
  })
  test('is cut off for a smaller client when memory is full and it is the largest', async () => {
    const { port } = await watched({
      perSecond: 1_000_000,
      limits: { bodiesBytes: 1_300_000, bodiesBytesPerClient: 700_000 },
    })
    // The two bodies of 640 kB each come in chunks, of which the last never arrives.
    const said: string[] = []
    const halves = ['127.0.0.8', '127.0.0.9'].map((localAddress) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress })
      socket.on('error', () => {})
      socket.on('data', (piece) => void said.push(String(piece)))
      socket.write(chunked('x'.repeat(400_000), 40_000).slice(0, -5))
      return socket
    })
    const honest = chunked('x'.repeat(100_000), 10_000)
    // Other bodies are accepted until the two have arrived.
    while (said.length === 0)
      expect(await exchange(port, honest, /paid/)).toContain('"characters":100000')
    expect(said[0]).toMatch(/^HTTP\/1.1 503 [\s\S]*too many bytes are being received/)
    expect(await exchange(port, honest, /paid/)).toContain('"characters":100000')
    expect(said).toHaveLength(1)
    for (const socket of halves) socket.destroy()
  })
})

describe('a connection', () => {
  test('of a throttled client is answered when its second is over', async () => {
    const { port, limiter } = await watched({ perSecond: 3 })
    for (let time = 0; time < 6; time++) await limiter.charge('127.0.0.1', 1)
    const startedAt = performance.now()
    const throttled = limiter.throttled('127.0.0.1')!
    const { status, text } = await post(port, '{}')
    expect(status).toBe(429)
    expect(JSON.parse(text)).toMatchObject({ id: null, error: { code: -32005 } })
    // Timers may fire a millisecond early.
    expect(performance.now() - startedAt).toBeGreaterThan(throttled.retryAfterMs - 20)
    expect((await post(port, '{}')).status).toBe(200)
  })
  test('is closed at the second request while the first one is throttled', async () => {
    const { port, limiter } = await watched({ perSecond: 1 })
    for (let time = 0; time < 2; time++) await limiter.charge('127.0.0.1', 1)
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    expect(await exchange(port, one + one)).toBe('')
  })
  test('is closed above its limit of requests in flight', async () => {
    const never: Responder = () => new Promise(() => {})
    const limits = { requestsInFlight: 10 }
    const { server, port } = await startServer({ respond: never, limits })
    open.push(server)
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const over = receive(socket)
    socket.write(one.repeat(10))
    await once(socket, 'connect')
    socket.write(one)
    expect(await over).toBe('')
  })
  test('is closed when its requests have far too many headers at once', async () => {
    const { server, port } = await startServer({ limits: { requestsInFlight: 50 } })
    open.push(server)
    const many = (headers: number) =>
      `${HEAD}${'x: y\r\n'.repeat(headers)}content-length: 2\r\n\r\n{}`
    expect(await exchange(port, many(20).repeat(50), /^HTTP/)).toContain('HTTP/1.1 200')
    expect(await exchange(port, many(600).repeat(3), /^HTTP/)).toContain('HTTP/1.1 200')
    const said = await exchange(port, many(600).repeat(6))
    expect(said.match(/HTTP\/1.1 200/g)?.length ?? 0).toBeLessThan(6)
  })
  test('gets the responses to pipelined requests in order, a few per turn', async () => {
    let max = 0
    let now = 0
    const respond: Responder = (body) => {
      max = Math.max(max, ++now)
      return { text: body, status: 200, headers: {} }
    }
    const { server, port } = await startServer({ respond, limits: { requestsPerTurn: 4 } })
    open.push(server)
    let turn = setImmediate(function spin() {
      now = 0
      turn = setImmediate(spin)
    })
    const all = Array.from({ length: 60 }, (_, at) => String(1_000 + at))
    const text = all.map((body) => `${HEAD}content-length: 4\r\n\r\n${body}`).join('')
    const said = await exchange(port, text, /1059$/)
    clearImmediate(turn)
    expect([...said.matchAll(/\r\n\r\n(\d{4})/g)].map((match) => match[1])).toEqual(all)
    // The maximum counts requests of the first read with immediate responses, and waiting ones.
    expect(max).toBeLessThanOrEqual(8)
  })
  test('may carry many requests one after the other', async () => {
    const { port } = await watched({ limits: { requestsInFlight: 2 } })
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    const socket = connect(port, '127.0.0.1')
    for (let time = 0; time < 20; time++) {
      socket.write(one)
      const [piece] = (await once(socket, 'data')) as [Buffer]
      expect(piece.toString()).toContain('"characters":2')
    }
    socket.destroy()
  })
})

describe('requests other than JSON-RPC calls', () => {
  test('are charged separately, and refused when their points are used up', async () => {
    const nonRpcRequests = createLimiter({ perSecond: 3, keys: 10, now: () => Date.now() })
    const { server, url } = await startServer({ nonRpcRequests })
    open.push(server)
    const statuses: number[] = []
    for (const path of ['/', '/healthz', '/nowhere', '/readyz'])
      statuses.push((await fetch(url + path)).status)
    expect(statuses).toEqual([200, 200, 404, 429])
    const call = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
    expect((await fetch(url, call)).status).toBe(200)
  })
})
