/** The hub behind /feed is tested over real sockets. */
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { createFeedHub, type FeedLimits } from '../../../rpc/feed-server/hub.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { openRaw, openSocket, startServer, talk } from '../../fixtures/sockets.ts'

const started: Server[] = []
afterEach(async () => {
  for (const server of started.splice(0)) await server.close()
})

async function start(options: Partial<FeedLimits> = {}) {
  const limits = {
    feedSubscribers: 2,
    feedQueueBytes: 1_000_000,
    feedHeldFrames: 10,
    feedHeldBytes: 1_000,
    feedEnrichedBytes: 0,
    ...options,
  }
  const { feedQueueBytes } = limits
  const hub = createFeedHub(limits, { run: '0x00000000000000aa', access: () => undefined })
  const { server, port } = await startServer({
    feed: hub.handle,
    limits: { feedQueueBytes, connectionsPerClient: 3 },
  })
  started.push(server)
  return { hub, port, url: `ws://127.0.0.1:${port}/feed` }
}

describe('a subscriber', () => {
  test('gets every packet after its subscription, in order', async () => {
    const { hub, url } = await start()
    const first = await openSocket(url)
    hub.broadcast('0', undefined)
    const second = await openSocket(url)
    hub.broadcast('1', undefined)
    hub.broadcast(Buffer.from('2'), undefined)
    expect([await first.next(), await first.next(), await first.next()]).toEqual(['0', '1', '2'])
    expect([await second.next(), await second.next()]).toEqual(['1', '2'])
    expect(hub.counts).toMatchObject({ packets: 3, lagging: 0, refused: 0, replays: 0 })
  })

  test('above the limit is accepted and closed with 1013, until an entry is free', async () => {
    const { hub, url } = await start({ feedSubscribers: 1 })
    const first = await openSocket(url)
    const second = await openSocket(url)
    expect(await second.closed).toEqual({
      code: 1013,
      reason: 'subscriber limit reached, please try again later',
    })
    expect(hub.counts.refused).toBe(1)
    first.close()
    await first.closed
    const third = await openSocket(url)
    hub.broadcast('x', undefined)
    expect(await third.next()).toBe('x')
  })

  test('that reads too slowly is closed and counted, and others are not', async () => {
    const { hub, port, url } = await start({ feedQueueBytes: 100_000 })
    const slow = await openRaw(port)
    slow.write(
      'GET /feed HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n',
    )
    await once(slow, 'data')
    slow.pause()
    const quick = await openSocket(url)
    const frame = 'x'.repeat(50_000)
    for (let sent = 0; sent < 1_000 && hub.subscribers === 2; sent++) {
      hub.broadcast(frame, undefined)
      expect(await quick.next()).toBe(frame)
    }
    expect(hub.subscribers).toBe(1)
    expect(hub.counts.lagging).toBe(1)
    slow.destroy()
  })

  test('may send messages, which are ignored', async () => {
    const { hub, url } = await start()
    const socket = await openSocket(url)
    socket.send('{"jsonrpc":"2.0"}')
    hub.broadcast('x', undefined)
    expect(await socket.next()).toBe('x')
  })
})

const PAYLOAD = '0x00000000000000aa'
const messageId = (number: number, index: number) => ({ number, index, payloadId: PAYLOAD })

describe('a reader that resumes', () => {
  test('gets the messages that it missed, then new ones', async () => {
    const { hub, url } = await start()
    for (const index of [0, 1, 2]) hub.broadcast(`5.${index}`, messageId(5, index))
    const socket = await openSocket(`${url}?since=5:0`)
    hub.broadcast('5.3', messageId(5, 3))
    expect([await socket.next(), await socket.next(), await socket.next()]).toEqual([
      ...['5.1', '5.2', '5.3'],
    ])
    expect(hub.counts).toMatchObject({ replays: 1, gaps: 0 })
  })

  test('gets a gap message for messages that are no longer retained', async () => {
    const { hub, url } = await start({ feedHeldFrames: 2 })
    for (const index of [0, 1, 2]) hub.broadcast(`5.${index}`, messageId(5, index))
    const socket = await openSocket(`${url}?since=4:2`)
    expect(JSON.parse(await socket.next())).toEqual({
      FlashnodeGap: {
        after: { number: 4, index: 2 },
        next: { number: 5, index: 1, payload_id: PAYLOAD },
      },
    })
    expect(await socket.next()).toBe('5.1')
    expect(hub.counts).toMatchObject({ replays: 1, gaps: 1 })
  })

  test('learns from response headers what is buffered and whether it resumes', async () => {
    const { hub, port } = await start()
    const headers = async (query: string) => {
      const raw = await openRaw(port)
      raw.write(handshake(query))
      const [data] = await once(raw, 'data')
      raw.destroy()
      return String(data)
        .split('\r\n')
        .filter((line) => line.startsWith('X-Feed'))
    }
    expect(await headers('')).toEqual(['X-Feed-Held: none'])
    hub.broadcast('5.1', messageId(5, 1))
    hub.broadcast('5.2', messageId(5, 2))
    const buffered = `X-Feed-Held: 5:1:${PAYLOAD}`
    expect(await headers('')).toEqual([buffered])
    expect(await headers('?since=5:1')).toEqual([buffered, 'X-Feed-Resumed: 1'])
    expect(await headers('?since=5:1:')).toEqual([buffered, 'X-Feed-Resumed: 1'])
    expect(await headers('?since=3:1')).toEqual([buffered])
  })

  test('gets 400 with the reason for an invalid query', async () => {
    const { port } = await start()
    const response = await talk(port, handshake('?since=yesterday'))
    expect(response).toMatch(/^HTTP\/1\.1 400 since: expected number:index or/)
  })
})

const handshake = (query: string) =>
  `GET /feed${query} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n`
