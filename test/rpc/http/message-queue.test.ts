/**
 * The messages of one WebSocket: fragments stay together, the order is kept, and little waits in
 * the socket. The tests use frames alone, and real sockets.
 */
import { once } from 'node:events'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LARGE, LargeResponse, type Part, type Responder } from '../../../rpc/core/exchange.ts'
import { createMessageQueue, type WebSocketFrames } from '../../../rpc/http/message-queue.ts'
import { createOutgoing } from '../../../rpc/http/outgoing.ts'
import { createUnsent } from '../../../rpc/http/unsent.ts'
import { openRaw, openSocket, startServer, type TestServerOptions } from '../../fixtures/sockets.ts'

const UNBOUNDED = { unsentBytes: Number.POSITIVE_INFINITY, unsentMs: Number.POSITIVE_INFINITY }
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Decodes the messages of consecutive frames (RFC 6455, 5.2). */
function textsOf(frames: Uint8Array): string[] {
  const bytes = Buffer.from(frames)
  const texts: string[] = []
  for (let at = 0; at < bytes.length; ) {
    expect(bytes[at]).toBe(0x81)
    const short = bytes[at + 1]!
    const [length, header] =
      short < 126
        ? [short, 2]
        : short === 126
          ? [bytes.readUInt16BE(at + 2), 4]
          : [Number(bytes.readBigUInt64BE(at + 2)), 10]
    texts.push(bytes.toString('latin1', at + header, at + header + length))
    at += header + length
  }
  return texts
}

/**
 * Makes WebSocketFrames over a network that takes bytes on demand; sent frames are reassembled like
 * by a receiver.
 */
function network() {
  const messages: string[] = []
  const sent: { bytes: number; done: (() => void) | undefined }[] = []
  const waiting: (() => void)[] = []
  let open: string | undefined
  let isOpen = true
  let max = 0
  const buffered = () => sent.reduce((sum, { bytes }) => sum + bytes, 0)
  const put = (bytes: number, done?: () => void) => {
    sent.push({ bytes, done })
    max = Math.max(max, buffered())
  }
  const frames: WebSocketFrames = {
    get isOpen() {
      return isOpen
    },
    get bufferedBytes() {
      return buffered()
    },
    send(data, done) {
      if (open !== undefined) throw new Error('a message within the fragments of another')
      messages.push(String(data))
      put(data.length, done)
    },
    sendFragment(part, isLast, done) {
      open = (open ?? '') + (typeof part === 'string' ? part : Buffer.from(part).toString())
      put(part.length, done)
      if (!isLast) return
      messages.push(open)
      open = undefined
    },
    cut() {
      isOpen = false
    },
    sendFrames(data, done) {
      if (open !== undefined) throw new Error('frames within the fragments of a message')
      messages.push(...textsOf(data))
      put(data.length, done)
    },
    onceTaken: (go) => void waiting.push(go),
  }
  return {
    frames,
    messages,
    get max() {
      return max
    },
    /** Sends the oldest frames. */
    take(count: number) {
      for (const { done } of sent.splice(0, count)) done?.()
      if (buffered() === 0) for (const go of waiting.splice(0)) go()
    },
  }
}

type Step =
  | { readonly message: number }
  | { readonly all: readonly number[] }
  | { readonly parts: readonly number[] }
  | { readonly take: number }
const stepOf: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ message: fc.nat(2_000) }),
  fc.record({ all: fc.array(fc.oneof(fc.nat(300), fc.nat(70_000)), { maxLength: 4 }) }),
  fc.record({ parts: fc.array(fc.nat(LARGE * 2), { minLength: 1, maxLength: 4 }) }),
  fc.record({ take: fc.nat(6) }),
)

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)

describe('a message queue', () => {
  test('keeps the order of messages and the fragments of each together', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(stepOf, { maxLength: 40 }), fc.boolean(), async (steps, isCut) => {
        const net = network()
        const queue = createMessageQueue({
          frames: net.frames,
          outgoing: createOutgoing(),
          unsent: createUnsent(UNBOUNDED, () => 0),
          bounds: { queueBytes: 10_000_000, responsesBytes: 1_000_000_000, unreadBytes: 65_536 },
          onUnread() {},
          onBug(error) {
            throw error
          },
        })
        const expected: string[] = []
        let started = 0
        let over = 0
        for (const [at, step] of steps.entries()) {
          const fill = (length: number) => String.fromCharCode(97 + (at % 26)).repeat(length)
          if ('message' in step) {
            expected.push(fill(step.message))
            queue.send(fill(step.message))
          } else if ('all' in step) {
            expected.push(...step.all.map(fill))
            queue.sendAll(step.all.map((length) => [Buffer.from(fill(length))]))
          } else if ('parts' in step) {
            const parts = step.parts.map((length): Part => {
              const text = fill(length)
              return length % 2 === 0 ? text : Buffer.from(text)
            })
            expected.push(step.parts.map(fill).join(''))
            started++
            queue.sendParts(parts, () => void over++)
          } else {
            net.take(step.take)
            await turn()
          }
        }
        if (isCut) net.frames.cut()
        else
          while (net.messages.length < expected.length) {
            net.take(1)
            await turn()
          }
        queue.end()
        queue.end()
        expect(over).toBe(started)
        const same = net.messages.every((message, index) => message === expected[index])
        expect(same).toBe(true)
        // The sum allows one piece of at most the longest part, and messages that had no reason to
        // wait.
        const bytesOf = (step: Step) =>
          'message' in step
            ? step.message
            : 'all' in step
              ? sum(step.all) + 10 * step.all.length
              : 0
        const messages = sum(steps.map(bytesOf))
        expect(net.max).toBeLessThanOrEqual(LARGE * 2 + messages)
      }),
      { numRuns: 60 },
    )
  })

  test('refuses messages above its limits', () => {
    const net = network()
    const unsent = createUnsent(UNBOUNDED, () => 0)
    const queue = createMessageQueue({
      frames: net.frames,
      outgoing: createOutgoing(),
      unsent,
      bounds: { queueBytes: 100, responsesBytes: LARGE, unreadBytes: 65_536 },
      onUnread() {},
      onBug() {},
    })
    const parts = ['x'.repeat(LARGE)]
    let over = 0
    const responses = Array.from({ length: 5 }, () => queue.sendParts(parts, () => void over++))
    // One response is on its way, one waits, and one more is allowed on top.
    expect(responses).toEqual([true, true, true, false, false])
    const messages = Array.from({ length: 4 }, () => queue.send('x'.repeat(60)))
    expect(messages).toEqual([true, true, false, false])
    expect(unsent.stats.responses).toBe(3)
    queue.end()
    expect([over, unsent.stats.responses]).toEqual([3, 0])
  })
})

describe('a WebSocket', () => {
  async function start(options: TestServerOptions) {
    const { server, port } = await startServer(options)
    onTestFinished(() => server.close())
    return { server, port, url: `ws://127.0.0.1:${port}` }
  }
  /** Responds to a number with this many pieces, and notifies its client before and after. */
  const respond: Responder = async (body, client) => {
    client.notify?.([[Buffer.from(`before ${body}`)]])
    setImmediate(() => client.notify?.([[Buffer.from('after '), Buffer.from(body)]]))
    const piece = Buffer.alloc(LARGE, body)
    return new LargeResponse(['"', ...Array.from({ length: Number(body) }, () => piece), '"'], {})
  }

  test('delivers notifications of every frame header length', async () => {
    const lengths = [0, 125, 126, 65_535, 65_536, 1]
    const { url } = await start({
      async respond(_body, client) {
        client.notify?.(lengths.map((length) => [Buffer.alloc(length, 'x')]))
        return { text: undefined, status: 200, headers: {} }
      },
    })
    const socket = await openSocket(url)
    socket.send('1')
    for (const length of lengths) expect((await socket.next()).length).toBe(length)
  })

  test('delivers large responses and notifications intact', async () => {
    const { url, server } = await start({ respond })
    const sockets = await Promise.all([openSocket(url), openSocket(url)])
    for (const socket of sockets) for (const count of ['9', '3', '7']) socket.send(count)
    for (const socket of sockets) {
      const got: string[] = []
      while (got.length < 9) got.push(await socket.next())
      for (const count of ['9', '3', '7']) {
        const large = `"${count.repeat(LARGE * Number(count))}"`
        expect(got.filter((text) => text === large)).toHaveLength(1)
        expect(got.indexOf(`before ${count}`)).toBeLessThan(got.indexOf(large))
        expect(got).toContain(`after ${count}`)
      }
    }
    await expect.poll(() => server.unsent.responses).toBe(0)
    expect(server.inFlight).toBe(0)
  })

  const request = Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x39])
  const handshake =
    'GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n'
  /** Sends this many requests for nine pieces, and reads nothing. */
  async function silentReader(port: number, requested: number) {
    const raw = await openRaw(port)
    onTestFinished(() => void raw.destroy())
    raw.write(handshake)
    await once(raw, 'data')
    raw.pause()
    for (let count = 0; count < requested; count++) raw.write(request)
    return raw
  }

  test('is closed when its client reads no responses, and their memory is freed', async () => {
    const { port, server } = await start({ respond, limits: { unsentMs: 300 } })
    await silentReader(port, 5)
    await expect.poll(() => server.unsent.cut).toBeGreaterThan(0)
    await expect.poll(() => server.webSockets).toBe(0)
    await expect.poll(() => server.unsent).toMatchObject({ responses: 0, bytes: 0 })
    expect(server.inFlight).toBe(0)
  })

  test('is closed when its client requests more than may wait', async () => {
    const all = Promise.withResolvers<void>()
    let requested = 0
    const together: Responder = async (body, client) => {
      if (++requested === 30) all.resolve()
      await all.promise
      return respond(body, client)
    }
    const limits = { sendAnswersBytes: LARGE * 20 }
    const { port, server } = await start({ respond: together, limits })
    const raw = await silentReader(port, 30)
    await all.promise
    let tail = ''
    raw.on('data', (chunk) => {
      tail = (tail + chunk.toString('latin1')).slice(-100)
    })
    raw.resume()
    await once(raw, 'close')
    expect(tail).toContain('too slow')
    await expect.poll(() => server.unsent).toMatchObject({ responses: 0, bytes: 0 })
    expect(server.inFlight).toBe(0)
  })
})
