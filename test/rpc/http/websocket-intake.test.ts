/**
 * Data from a WebSocket is limited and charged as it arrives. A client that does not read gets no
 * responses.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Responder, RpcResponse } from '../../../rpc/core/exchange.ts'
import { createIntake } from '../../../rpc/http/intake.ts'
import { createMeters } from '../../../rpc/http/meter.ts'
import { createReading } from '../../../rpc/http/reading.ts'
import { type Charge, createLimiter } from '../../../rpc/limiter/limiter.ts'
import { createSharedLimiter, type PointStore } from '../../../rpc/limiter/shared.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { openSocket, startServer, type TestServerOptions } from '../../fixtures/sockets.ts'

const HANDSHAKE =
  'GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n'
const TEXT = 1
const PING = 9
const reply = (text: string): RpcResponse => ({ text, status: 200, headers: {} })
const turn = () => new Promise((resolve) => setImmediate(resolve))

async function start(options: TestServerOptions) {
  const started = await startServer(options)
  onTestFinished(() => started.server.close())
  return started
}

/** Makes a frame like a client, masked with zeros. */
function frame(payload: string, opcode = TEXT, isLast = true): Buffer {
  const { length } = payload
  const head = [(isLast ? 0x80 : 0) | opcode]
  if (length < 126) head.push(0x80 | length)
  else head.push(0x80 | 127, 0, 0, 0, 0, length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255)
  if (length >= 126) head.push(length & 255)
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), Buffer.from(payload)])
}
async function openBare(port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  const raw = connect({ port, host: '127.0.0.1', localAddress })
  raw.on('error', () => {})
  await once(raw, 'connect')
  onTestFinished(() => void raw.destroy())
  raw.write(HANDSHAKE)
  await once(raw, 'data')
  return raw
}
/** Gives the code with which the server closes. */
async function closeCode(raw: Socket): Promise<number> {
  let all = Buffer.alloc(0)
  raw.on('data', (chunk) => {
    all = Buffer.concat([all, chunk]).subarray(-200)
  })
  await new Promise((resolve) => raw.once('end', resolve).once('close', resolve))
  const at = all.lastIndexOf(0x88)
  return at < 0 ? 0 : all.readUInt16BE(at + 2)
}

describe('messages of a WebSocket', () => {
  test('are taken one per turn when 10,000 arrive at once', async () => {
    let inTurn = 0
    let max = 0
    let taken = 0
    const respond: Responder = () => {
      taken++
      max = Math.max(max, ++inTurn)
      setImmediate(() => {
        inTurn = 0
      })
      return { text: undefined, status: 200, headers: {} }
    }
    const { port } = await start({ respond })
    const raw = await openBare(port)
    raw.write(Buffer.concat(Array.from({ length: 10_000 }, () => frame('1'))))
    await expect.poll(() => taken).toBe(10_000)
    expect(max).toBeLessThanOrEqual(2)
  })

  test('wait in order above the limit in flight, and too many close the connection', async () => {
    const seen: string[] = []
    const release = Promise.withResolvers<void>()
    const respond: Responder = async (body) => {
      seen.push(body)
      await release.promise
      return reply(body)
    }
    const { port } = await start({ respond, limits: { messagesInFlight: 3, messagesWaiting: 20 } })
    const patient = await openSocket(`ws://127.0.0.1:${port}`)
    const ids = Array.from({ length: 20 }, (_, id) => `${id}`)
    for (const id of ids) patient.send(id)
    const greedy = await openBare(port)
    greedy.write(Buffer.concat(Array.from({ length: 30 }, () => frame('x'))))
    expect(await closeCode(greedy)).toBe(1008)
    expect(seen.filter((body) => body !== 'x')).toEqual(ids.slice(0, 3))
    release.resolve()
    const responses: string[] = []
    while (responses.length < ids.length) responses.push(await patient.next())
    expect(seen.filter((body) => body !== 'x')).toEqual(ids)
    expect(responses.toSorted()).toEqual(ids.toSorted())
  })

  test('are not read for the time that a response says', async () => {
    const times: number[] = []
    const respond: Responder = (body) => {
      times.push(performance.now())
      return { ...reply(body), throttleMs: body === '1' ? 300 : undefined }
    }
    const { port } = await start({ respond })
    const socket = await openSocket(`ws://127.0.0.1:${port}`)
    for (const body of ['0', '1', '2', '3']) socket.send(body)
    for (const body of ['0', '1', '2', '3']) expect(await socket.next()).toBe(body)
    const [first, throttled, next] = times
    expect(throttled! - first!).toBeLessThan(250)
    expect(next! - throttled!).toBeGreaterThan(295)
  })

  test('in too many fragments or pieces close the connection', async () => {
    const limits = { messageFragments: 10, messageChunks: 20 }
    const { port } = await start({ limits })
    const fragmented = await openBare(port)
    fragmented.write(frame('', TEXT, false))
    fragmented.write(Buffer.concat(Array.from({ length: 10 }, () => frame('', 0, false))))
    expect(await closeCode(fragmented)).toBe(1008)
    const slow = await openBare(port)
    const closed = closeCode(slow)
    let isOpen = true
    void closed.then(() => {
      isOpen = false
    })
    slow.setNoDelay(true)
    slow.write(frame('x'.repeat(100)).subarray(0, 20))
    for (let piece = 0; piece < 100_000 && isOpen; piece++) {
      if (piece < 79) slow.write('x')
      await turn()
    }
    expect(await closed).toBe(1008)
  })

  test('that arrive too slowly close the connection', async () => {
    const { port } = await start({ limits: { requestMs: 300 } })
    const raw = await openBare(port)
    raw.write(frame('x'.repeat(50_000)).subarray(0, 40_000))
    expect(await closeCode(raw)).toBe(1008)
  })
})

test('a flood of control frames closes its connection', async () => {
  const { port } = await start({ limits: { controlFrames: 50 } })
  const some = await openSocket(`ws://127.0.0.1:${port}`)
  const raw = await openBare(port)
  raw.write(Buffer.concat(Array.from({ length: 51 }, () => frame('', PING))))
  expect(await closeCode(raw)).toBe(1008)
  some.send('1')
  expect(await some.next()).toContain('"body":"1"')
})

test('a message is charged while it arrives, and waits when a charge is refused', async () => {
  const charges: number[] = []
  const prepaid: (number | undefined)[] = []
  let refusals = 2
  const charge = async (_address: string, points: number): Promise<Charge> => {
    if (refusals-- > 0)
      return { isAllowed: false, limit: 1, used: 1, cost: points, retryAfterMs: 20 }
    charges.push(points)
    return { isAllowed: true, second: 1 }
  }
  const respond: Responder = (body, _client, before) => {
    prepaid.push(before?.points)
    return reply(String(body.length))
  }
  const { port } = await start({
    limiter: { charge, owe() {}, throttled: () => undefined },
    respond,
  })
  const socket = await openSocket(`ws://127.0.0.1:${port}`)
  socket.send('x')
  socket.send('x'.repeat(1_000_000))
  socket.send('x')
  expect([await socket.next(), await socket.next(), await socket.next()]).toEqual([
    '1',
    '1000000',
    '1',
  ])
  // 1 MB starts 16 blocks of 64 kB: the first is charged with the response, and the last may be
  // too.
  const sum = charges.reduce((all, one) => all + one, 0)
  expect(sum).toBeGreaterThanOrEqual(14)
  expect(sum).toBeLessThanOrEqual(15)
  expect(prepaid).toEqual([0, sum, 0])
  expect(refusals).toBeLessThan(0)
})

describe('memory for arriving messages', () => {
  test('makes messages wait, and all of them complete', async () => {
    const limits = { bodiesBytesPerClient: 150_000 }
    const { port } = await start({ limits, respond: (body) => reply(String(body.length)) })
    const full = frame('x'.repeat(400_000))
    const sockets = await Promise.all(Array.from({ length: 4 }, () => openBare(port)))
    for (const socket of sockets) socket.write(full.subarray(0, 100_000))
    await turn()
    const responses = sockets.map((socket) => once(socket, 'data'))
    for (const socket of sockets) socket.write(full.subarray(100_000))
    for (const response of responses) expect(String(await response)).toContain('400000')
  })

  test('is taken from the connection with the most, which is closed', async () => {
    const limits = { bodiesBytes: 500_000, bodiesBytesPerClient: 450_000 }
    const { port } = await start({ limits, respond: (body) => reply(String(body.length)) })
    const large = await openBare(port)
    large.write(frame('x'.repeat(400_000)).subarray(0, 390_000))
    let code: number | undefined
    void closeCode(large).then((one) => {
      code = one
    })
    const other = await openBare(port, '127.0.0.9')
    // Other messages are accepted until the first one has arrived completely.
    while (code === undefined) {
      const response = once(other, 'data')
      other.write(frame('x'.repeat(200_000)))
      expect(String(await response)).toContain('200000')
    }
    expect(code).toBe(1013)
  })

  test('is returned when a message completes or its connection ends', () => {
    const intake = createIntake({ bodiesBytes: 1_000_000, bodiesBytesPerClient: 1_000_000 })
    const meters = createMeters({
      limiter: { charge: () => ({ isAllowed: true, second: 1 }) },
      intake,
      messageMs: 1_000,
      now: () => 0,
    })
    const open = () =>
      meters.open({
        address: '127.0.0.1',
        reading: createReading({ pause() {}, resume() {} }, () => 0),
        cut() {},
      })
    const [first, second] = [open(), open()]
    for (const meter of [first, second]) {
      meter.received(10_000)
      expect(intake.bytes === 0 || meter === second).toBe(true)
      meter.received(50_000)
    }
    expect(intake.bytes).toBe(2 * (60_000 + 2 * 256 - 16_384))
    void first.complete(1)
    second.end()
    expect(intake.bytes).toBe(0)
  })
})

describe('control frames', () => {
  function metered() {
    const charged: number[] = []
    const charge = (_address: string, points: number): Charge => {
      charged.push(points)
      return { isAllowed: true, second: 1 }
    }
    const intake = createIntake({ bodiesBytes: 1_000_000, bodiesBytesPerClient: 1_000_000 })
    const meters = createMeters({
      limiter: { charge },
      intake,
      messageMs: 30_000,
      now: () => performance.now(),
    })
    const reading = createReading({ pause() {}, resume() {} }, () => 0)
    const cuts: string[] = []
    const cut = (why: string) => void cuts.push(why)
    return { charged, intake, cuts, meter: meters.open({ address: '127.0.0.1', reading, cut }) }
  }

  test.each([
    [31, []],
    [32, [1]],
    [100, [1, 1, 1]],
  ])('%i of them cost the points %j', async (count, points) => {
    const { charged, meter } = metered()
    for (let sent = 0; sent < count; sent++) {
      meter.control(0)
      await turn()
    }
    expect(charged).toEqual(points)
  })

  /** Followers of a feed send pings at this interval. */
  const EVERY_MS = 500
  const LASTS_MS = 3_600_000

  test.each([
    ['in one piece', 0, [131]],
    ['in two pieces', 0, [1, 130]],
    ['together with the start of the next', 5, [131]],
  ])('do not count as a late message: each %s', (_, before, pieces) => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { meter, intake, cuts } = metered()
    if (before > 0) meter.received(before)
    for (let ms = 0; ms < LASTS_MS; ms += EVERY_MS) {
      for (const piece of pieces) meter.received(piece)
      meter.control(125)
      vi.advanceTimersByTime(EVERY_MS)
    }
    expect(cuts).toEqual([])
    expect(intake.bytes).toBe(0)
  })

  test('inside a message change neither its size nor its timeout', () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { meter, intake, cuts } = metered()
    meter.received(50_000)
    for (let ms = 0; ms < 29_000; ms += EVERY_MS) {
      meter.received(6)
      meter.control(0)
      expect(intake.bytes).toBeGreaterThanOrEqual(50_000 - 16_384)
      vi.advanceTimersByTime(EVERY_MS)
    }
    expect(cuts).toEqual([])
    vi.advanceTimersByTime(3_000)
    expect(cuts).toEqual(['late'])
  })

  test('of a client that only listens do not close its connection', async () => {
    const { port } = await start({ limits: { requestMs: 100, controlFrames: 1_000_000 } })
    const raw = await openBare(port)
    let code: number | undefined
    const closed = closeCode(raw).then((one) => {
      code = one
    })
    // The times are checked once in a second.
    const until = performance.now() + 1_300
    while (code === undefined && performance.now() < until) {
      const pong = once(raw, 'data')
      raw.write(frame('', PING))
      await Promise.race([pong, closed])
    }
    expect(code).toBeUndefined()
  })

  test('cost the same between messages', async () => {
    const { charged, meter } = metered()
    for (let sent = 0; sent < 64; sent++) {
      meter.control(0)
      void meter.complete(1)
      await turn()
    }
    expect(charged).toEqual([1, 1])
  })
})

describe('a client that does not read', () => {
  const text = 'x'.repeat(100_000)
  async function silent(options: TestServerOptions) {
    let responded = 0
    const respond: Responder = () => {
      responded++
      return reply(text)
    }
    const started = await start({ respond, ...options })
    const raw = await openBare(started.port)
    raw.pause()
    return { ...started, raw, responded: () => responded }
  }

  test('gets no further responses until it reads again', async () => {
    const count = 300
    const { raw, responded, server, port } = await silent({
      limits: { pingMs: 1_000, pongMs: 500, controlFrames: 100_000 },
    })
    for (let sent = 0; sent < count; sent++) raw.write(frame('1'))
    await expect.poll(() => server.unsent.responses).toBeGreaterThan(0)
    const before = responded()
    // Another socket that is read is closed for its missing pong.
    const mute = await openBare(port)
    await new Promise((resolve) => mute.resume().once('close', resolve))
    expect(responded()).toBe(before)
    expect(before).toBeLessThan(count)
    expect(server.unsent.bytes).toBeLessThan(1_000_000)
    await expect.poll(() => server.webSockets).toBe(1)
    let got = 0
    raw.on('data', (chunk) => {
      got += chunk.length
      // An unrequested pong counts as a response too.
      raw.write(frame('', 10))
    })
    raw.resume()
    await expect.poll(() => got).toBeGreaterThanOrEqual(count * text.length)
    expect(responded()).toBe(count)
    await expect.poll(() => server.unsent.responses).toBe(0)
  })

  test('is closed at a timeout', async () => {
    const { raw, server } = await silent({ limits: { unsentMs: 200, pongMs: 60_000 } })
    for (let sent = 0; sent < 300; sent++) raw.write(frame('1'))
    await expect.poll(() => server.unsent.cut).toBeGreaterThan(0)
    await expect.poll(() => server.webSockets).toBe(0)
    expect(server.unsent).toMatchObject({ responses: 0, bytes: 0 })
  })
})

describe('a complete message whose charge is still open', () => {
  /** Makes a store whose responses the test delays. */
  function slowStore() {
    const taken: number[] = []
    const waiting: (() => void)[] = []
    const points = (used: number) => ({ used, second: 1, leftMs: 1_000 })
    const store: PointStore = {
      isUp: true,
      async take(_key, requested) {
        await new Promise<void>((resolve) => waiting.push(resolve))
        taken.push(requested)
        return points(requested)
      },
      owe: async () => points(0),
      grant: async () => points(0),
      peek: async () => ({ ...points(0), owed: 0 }),
    }
    const options = { perSecond: 100, keys: 10, now: () => Date.now() }
    const limiter = createSharedLimiter({ ...options, local: createLimiter(options), store })
    return { taken, limiter, waiting, respond: () => waiting.shift()?.() }
  }
  const sum = (all: readonly number[]) => all.reduce((a, b) => a + b, 0)
  const call = (bytes: number) => {
    const [head, tail] = [
      '{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion","params":["',
      '"]}',
    ]
    return `${head}${'x'.repeat(Math.max(0, bytes - head.length - tail.length))}${tail}`
  }

  test.each([
    ['a short message behind it', [200_000, 70], 5],
    ['a long message behind it', [200_000, 200_000], 8],
    ['many messages behind it', [200_000, ...Array<number>(40).fill(70)], 44],
  ])('is charged once, and so is each message behind it: %s', async (_name, sizes, points) => {
    const { taken, limiter, waiting, respond } = slowStore()
    const rpc = testRpc({ limiter })
    const { port } = await start({ respond: rpc.respond, limiter })
    const raw = await openBare(port)
    raw.write(Buffer.concat(sizes.map((bytes) => frame(call(bytes)))))
    let responses = 0
    raw.on('data', (data) => {
      responses += String(data).split('"jsonrpc"').length - 1
    })
    // The store responds late, when nothing else has happened for a while.
    for (let idle = 0; responses < sizes.length; idle++) {
      await turn()
      if (waiting.length > 0 && idle % 50 === 49) respond()
    }
    expect(sum(taken)).toBe(points)
  })

  test('is answered before the messages behind it', async () => {
    const { limiter, waiting, respond } = slowStore()
    const seen: number[] = []
    const { port } = await start({
      limiter,
      respond(body) {
        seen.push(body.length)
        return reply('1')
      },
    })
    const raw = await openBare(port)
    const sizes = [100_000, 1, 2, 3]
    raw.write(Buffer.concat(sizes.map((bytes) => frame('x'.repeat(bytes)))))
    await expect.poll(() => waiting.length).toBe(1)
    for (let turns = 0; turns < 50; turns++) await turn()
    expect(seen).toEqual([])
    respond()
    await expect.poll(() => seen).toEqual(sizes)
  })
})

test('a request body is charged once, however late the limiter responds', async () => {
  const taken: number[] = []
  const charge = async (_address: string, points: number): Promise<Charge> => {
    for (let turns = 0; turns < 50; turns++) await turn()
    taken.push(points)
    return { isAllowed: true, second: 1 }
  }
  const limiter = { charge, throttled: () => undefined, owe() {} }
  const rpc = testRpc({ limiter: { ...createLimiter(FREE), ...limiter } })
  const { port } = await start({ respond: rpc.respond, limiter })
  const body = JSON.stringify({
    id: 1,
    method: 'web3_clientVersion',
    params: ['x'.repeat(200_000)],
  })
  const raw = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void raw.destroy())
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
  const head = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
  const pieces = [0, 1, 2, 3, 4]
    .map((at) => chunk(body.slice(50_000 * at, 50_000 * (at + 1))))
    .join('')
  raw.write(
    `${head}transfer-encoding: chunked\r\n\r\n${pieces}0\r\n\r\n${head}content-length: 2\r\n\r\n{}`,
  )
  let said = ''
  raw.on('data', (data) => {
    said += data
  })
  await expect.poll(() => said.split('HTTP/1.1 200').length).toBe(3)
  expect(taken.reduce((a, b) => a + b, 0)).toBe(5)
})
const FREE = { perSecond: undefined, keys: 1, now: () => Date.now() }
