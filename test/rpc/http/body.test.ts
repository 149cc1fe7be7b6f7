/** Bodies on their way in, over real sockets: what they are charged, in what they are bounded, and what is done with who sends too much. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Server } from '../../../rpc/http/server.ts'
import { createLimiter, type Limiter } from '../../../rpc/limiter/limiter.ts'
import type { Answerer } from '../../../rpc/seam/exchange.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { openSocket, startServer } from '../../fixtures/sockets.ts'

async function later<T>(value: T): Promise<Awaited<T>> {
  for (let turns = 0; turns < 50; turns++) await new Promise((resolve) => setImmediate(resolve))
  return await value
}
type Charged = { address: string; points: number }
const open: Server[] = []
afterAll(() => Promise.all(open.map((server) => server.close())))

/** A server that answers with what was paid for a body, and what its limiter was asked. */
async function watched(
  options: {
    perSecond?: number
    limits?: object
    now?: () => number
    /** The limiter answers some turns of the loop later. */
    isLate?: boolean
  } = {},
) {
  const charges: Charged[] = []
  const limiter = createLimiter({
    perSecond: options.perSecond ?? 1_000,
    keys: 10,
    now: () => Date.now(),
  })
  const noted: Pick<Limiter, 'charge' | 'held' | 'owe'> = {
    owe: (address, points) => limiter.owe(address, points),
    held: (address) => limiter.held(address),
    charge(address, points) {
      charges.push({ address, points })
      const charged = limiter.charge(address, points)
      return options.isLate === true ? later(charged) : charged
    },
  }
  const answer: Answerer = (body, _client, paid) => ({
    text: JSON.stringify({ characters: body.length, paid: paid?.points }),
    status: 200,
    headers: {},
  })
  const { limits = {}, now = () => performance.now() } = options
  const started = await startServer({ answer, limiter: noted, limits, now })
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

/** Sends it as it is; gives all that comes until the connection ends, or until `until` has come. */
async function exchange(port: number, text: string, until?: RegExp): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  return heard(socket, until)
}
function heard(socket: Socket, until?: RegExp): Promise<string> {
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

describe('a body is charged while it comes in', () => {
  const cases: [name: string, bytes: number, paid: number][] = [
    ['nothing', 0, 0],
    ['a point and no more', 65_536, 0],
    ['a byte more', 65_537, 1],
    ['a megabyte', 1_000_000, 15],
    ['all it may', 2_000_000, 30],
  ]
  test.each(cases)('%s', async (_name, bytes, paid) => {
    const { port, charges } = await watched()
    const { text } = await post(port, 'x'.repeat(bytes))
    expect(JSON.parse(text)).toEqual({ characters: bytes, paid })
    expect(sum(charges)).toBe(paid)
  })
  test('in chunks, whose length nobody knows before', async () => {
    const { port, charges } = await watched()
    const said = await exchange(port, chunked('x'.repeat(200_000), 20_000), /paid/)
    expect(said).toContain('{"characters":200000,"paid":3}')
    expect(sum(charges)).toBe(3)
  })
  test('many pieces of few bytes cost as much as many bytes', async () => {
    const { port } = await watched()
    const said = await exchange(port, chunked('x'.repeat(510), 1), /paid/)
    expect(said).toContain('{"characters":510,"paid":3}')
  })
  test('by its bytes, not by its letters', async () => {
    const limiter = createLimiter({ perSecond: 100, keys: 10, now: () => Date.now() })
    const rpc = testRpc({ limiter })
    const { server, port } = await startServer({ answer: rpc.answer, limiter })
    open.push(server)
    const long = (letters: number) =>
      `{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion","params":["${'ü'.repeat(letters)}"]}`
    // 60,000 letters are two points on their way and one as text.
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
  test('letters of several bytes, cut where they should not be', async () => {
    const { port } = await watched()
    const text = 'ü€😀'.repeat(20_000)
    const { text: said } = await post(port, text)
    expect(JSON.parse(said)).toEqual({ characters: text.length, paid: 2 })
  })
})

describe('what is refused', () => {
  test('a body that its client cannot pay for is not read, and costs nothing', async () => {
    const { port, limiter } = await watched({ perSecond: 20 })
    const head = `${HEAD}content-length: 2000000\r\n\r\n`
    const said = await exchange(port, `${head}${'x'.repeat(1_000)}`, /\}\}$/)
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(said).toContain('"code":-32005')
    expect(said).toContain('connection: close')
    expect(limiter.charged).toBe(0)
  })
  /** What the server reads of the connections that it accepts from now on. */
  function accepted(): Socket[] {
    const sockets: Socket[] = []
    const note = (message: unknown) => void sockets.push((message as { socket: Socket }).socket)
    subscribe('net.server.socket', note)
    onTestFinished(() => void unsubscribe('net.server.socket', note))
    return sockets
  }
  const TWO_READS = 2 * 65_536
  test.each([
    ['at once', false],
    ['by a store that answers later', true],
  ])('a body that its client cannot pay for stays unread, refused %s', async (_name, isLate) => {
    const sockets = accepted()
    const { port, limiter } = await watched({ perSecond: 20, isLate })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`${HEAD}content-length: 2000000\r\n\r\n`)
    socket.write(Buffer.alloc(2_000_000, ' '))
    const said = await heard(socket)
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(said).toContain('"reason":"rate"')
    expect(sockets).toHaveLength(1)
    expect(sockets[0]!.bytesRead).toBeLessThanOrEqual(TWO_READS)
    expect(limiter.charged).toBe(0)
  })
  test('a body in chunks is not read any further than it can be paid for', async () => {
    const sockets = accepted()
    const { port } = await watched({ perSecond: 4 })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(chunked('x'.repeat(1_900_000), 50_000))
    expect(await heard(socket)).toMatch(/^HTTP\/1.1 429 /)
    expect(sockets[0]!.bytesRead).toBeLessThanOrEqual(5 * 65_536 + TWO_READS)
  })
  test('one that became too dear on its way has paid for what was read', async () => {
    const { port, limiter } = await watched({ perSecond: 5 })
    const said = await exchange(port, chunked('x'.repeat(600_000), 50_000), /\}\}/)
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(limiter.charged).toBe(5)
  })
  test('too many pieces: the connection is closed, and what was read is paid for', async () => {
    const { port, charges } = await watched()
    const said = await exchange(port, chunked('x'.repeat(1_000_000), 1))
    expect(said === '' || said.includes('content in too many pieces')).toBe(true)
    expect(sum(charges)).toBe(7)
  })
  describe('whoever sends too many', () => {
    const shattered = chunked('x'.repeat(10_000), 1)
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    /** A server whose clock the test moves. */
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

    test('loses the connection of the first such body, and no other', async () => {
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
    test('is cut off with the second within five seconds: its idle sockets are closed, and it gets no new ones', async () => {
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
    test('is not cut off with the second five seconds later', async () => {
      const { port, server, pass } = await clocked()
      await exchange(port, shattered)
      pass(5_000)
      await exchange(port, shattered)
      expect(await exchange(port, one, /paid/)).toContain('"characters":2')
      expect(server.sockets.cutOff).toBe(0)
    })
  })
  test('an encoding that is not served is no flood, though its length is unknown', async () => {
    const { port, server } = await watched()
    const head = `${HEAD}content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n`
    expect(await exchange(port, `${head}1\r\nx\r\n`)).toMatch(/^HTTP\/1.1 415 /)
    expect(server.sockets.cutOff).toBe(0)
    expect((await post(port, '{}')).status).toBe(200)
  })
  test('a refusal for its form that is over the rate costs what was read', async () => {
    const { port, limiter } = await watched({ perSecond: 4, limits: { bodyBytes: 300_000 } })
    const said = await exchange(port, chunked('x'.repeat(400_000), 20_000))
    expect(said).toMatch(/^HTTP\/1.1 429 /)
    expect(limiter.charged).toBe(4)
  })
  test('too many bytes that are announced: they are paid for when they come', async () => {
    const { port, charges } = await watched({ perSecond: 20 })
    const head = `${HEAD}content-length: 4000000\r\n\r\n`
    const said = await exchange(port, `${head}${'x'.repeat(200_000)}`, /\}\}/)
    expect(said).toMatch(/^HTTP\/1.1 413 /)
    expect(sum(charges)).toBeLessThanOrEqual(4)
  })
  test('a byte too many in chunks, by whom has used some of its points', async () => {
    const { port, limiter } = await watched({ perSecond: 100 })
    await limiter.charge('127.0.0.1', 60)
    const body = chunked('x'.repeat(2_000_001), 50_000)
    expect(await exchange(port, body, /\}\}/)).toMatch(/^HTTP\/1.1 413 /)
    expect(limiter.charged).toBe(60 + 31)
  })
  test('what comes after the refusal is paid for, and not read of whom cannot', async () => {
    const { port, limiter, charges } = await watched({ perSecond: 10 })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const isOver = heard(socket)
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
  test('an expectation that is not known is refused as any other request is', async () => {
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
  test('more pieces at once than two bodies may have, in however many requests', async () => {
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
  test('pieces of a kilobyte are never too many', async () => {
    const { port } = await watched()
    const said = await exchange(port, chunked('x'.repeat(1_900_000), 1_024), /paid/)
    expect(said).toContain('"characters":1900000')
  })
  test('pieces of a kilobyte are never too many in one turn of the event loop', async () => {
    const { port, server } = await watched({ limits: { bodyPieces: 10 } })
    for (let time = 0; time < 20; time++) {
      const said = await exchange(port, chunked('x'.repeat(60_000), 1_024), /paid/)
      expect(said).toContain('"characters":60000')
    }
    expect(server.sockets.cutOff).toBe(0)
  })
  test('too many bytes in chunks', async () => {
    const { port } = await watched({ limits: { bodyBytes: 100_000 } })
    const said = await exchange(port, chunked('x'.repeat(300_000), 10_000), /\}\}/)
    expect(said).toMatch(/^HTTP\/1.1 413 /)
    expect(said).toContain('content length too large')
  })
  test('more than may be received at a time', async () => {
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
      // The first one's bytes may not have come yet.
      if (said.startsWith('HTTP/1.1 503')) break
      expect(said).toBe('')
    }
    half.destroy()
  })
  test('all that may be received, by few addresses: the largest is cut for who has less', async () => {
    const { port } = await watched({
      perSecond: 1_000_000,
      limits: { bodiesBytes: 1_300_000, bodiesBytesPerClient: 700_000 },
    })
    // 640 kB of room each, in chunks of which the last never comes.
    const said: string[] = []
    const halves = ['127.0.0.8', '127.0.0.9'].map((localAddress) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress })
      socket.on('error', () => {})
      socket.on('data', (piece) => void said.push(String(piece)))
      socket.write(chunked('x'.repeat(400_000), 40_000).slice(0, -5))
      return socket
    })
    const honest = chunked('x'.repeat(100_000), 10_000)
    // Until the two are here, there is room.
    while (said.length === 0)
      expect(await exchange(port, honest, /paid/)).toContain('"characters":100000')
    expect(said[0]).toMatch(/^HTTP\/1.1 503 [\s\S]*too many bytes are being received/)
    expect(await exchange(port, honest, /paid/)).toContain('"characters":100000')
    expect(said).toHaveLength(1)
    for (const socket of halves) socket.destroy()
  })
})

describe('one connection', () => {
  test('whoever goes on after its refusals is answered when its second is over', async () => {
    const { port, limiter } = await watched({ perSecond: 3 })
    for (let time = 0; time < 6; time++) await limiter.charge('127.0.0.1', 1)
    const startedAt = performance.now()
    const held = limiter.held('127.0.0.1')!
    const { status, text } = await post(port, '{}')
    expect(status).toBe(429)
    expect(JSON.parse(text)).toMatchObject({ id: null, error: { code: -32005 } })
    // Timers may come a millisecond early.
    expect(performance.now() - startedAt).toBeGreaterThan(held.retryAfterMs - 20)
    expect((await post(port, '{}')).status).toBe(200)
  })
  test('a second request of whom is held ends the connection', async () => {
    const { port, limiter } = await watched({ perSecond: 1 })
    for (let time = 0; time < 2; time++) await limiter.charge('127.0.0.1', 1)
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    expect(await exchange(port, one + one)).toBe('')
  })
  test('more unanswered requests than it may have end it', async () => {
    const never: Answerer = () => new Promise(() => {})
    const limits = { requestsInFlight: 10 }
    const { server, port } = await startServer({ answer: never, limits })
    open.push(server)
    const one = `${HEAD}content-length: 2\r\n\r\n{}`
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const over = heard(socket)
    socket.write(one.repeat(10))
    await once(socket, 'connect')
    socket.write(one)
    expect(await over).toBe('')
  })
  test('more headers at once than requests have that mean it end it', async () => {
    const { server, port } = await startServer({ limits: { requestsInFlight: 50 } })
    open.push(server)
    const many = (headers: number) =>
      `${HEAD}${'x: y\r\n'.repeat(headers)}content-length: 2\r\n\r\n{}`
    expect(await exchange(port, many(20).repeat(50), /^HTTP/)).toContain('HTTP/1.1 200')
    expect(await exchange(port, many(600).repeat(3), /^HTTP/)).toContain('HTTP/1.1 200')
    const said = await exchange(port, many(600).repeat(6))
    expect(said.match(/HTTP\/1.1 200/g)?.length ?? 0).toBeLessThan(6)
  })
  test('many that came at once are answered in order, a few a turn', async () => {
    let most = 0
    let now = 0
    const answer: Answerer = (body) => {
      most = Math.max(most, ++now)
      return { text: body, status: 200, headers: {} }
    }
    const { server, port } = await startServer({ answer, limits: { requestsPerTurn: 4 } })
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
    // Those of the first read that are answered at once, and those that waited.
    expect(most).toBeLessThanOrEqual(8)
  })
  test('one after the other it may have many', async () => {
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

describe('what is no call pays from a purse of its own', () => {
  test('and is refused when that is empty', async () => {
    const visits = createLimiter({ perSecond: 3, keys: 10, now: () => Date.now() })
    const { server, url } = await startServer({ visits })
    open.push(server)
    const statuses: number[] = []
    for (const path of ['/', '/healthz', '/nowhere', '/readyz'])
      statuses.push((await fetch(url + path)).status)
    expect(statuses).toEqual([200, 200, 404, 429])
    const call = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
    expect((await fetch(url, call)).status).toBe(200)
  })
})
