/** The hub behind /feed, over real sockets. */
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { createFeedHub, type FeedLimits } from '../../../rpc/feed/hub.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { openRaw, openSocket, startServer, talk } from '../../fixtures/sockets.ts'

const started: Server[] = []
afterEach(async () => {
  for (const server of started.splice(0)) await server.close()
})

async function start(options: Partial<FeedLimits> = {}) {
  const limits = {
    ...{ feedSubscribers: 2, feedQueueBytes: 1_000_000, feedHeldFrames: 10, feedHeldBytes: 1_000 },
    feedEnrichedBytes: 0,
    ...options,
  }
  const { feedQueueBytes } = limits
  const hub = createFeedHub(limits, { run: '0x00000000000000aa', gate: () => undefined })
  const { server, port } = await startServer({
    feed: hub.door,
    limits: { feedQueueBytes, connectionsPerClient: 3 },
  })
  started.push(server)
  return { hub, port, url: `ws://127.0.0.1:${port}/feed` }
}

describe('subscribers', () => {
  test('get every packet from the moment they joined, in order', async () => {
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

  test('above the limit: accepted, then 1013; a place that is free again is given', async () => {
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

  test('one that reads too slowly is closed and counted, the others are not', async () => {
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

  test('what they send is ignored', async () => {
    const { hub, url } = await start()
    const socket = await openSocket(url)
    socket.send('{"jsonrpc":"2.0"}')
    hub.broadcast('x', undefined)
    expect(await socket.next()).toBe('x')
  })
})

const PAYLOAD = '0x00000000000000aa'
const place = (number: number, index: number) => ({ number, index, payloadId: PAYLOAD })

describe('readers that were away', () => {
  test('get what they have missed, then what is new', async () => {
    const { hub, url } = await start()
    for (const index of [0, 1, 2]) hub.broadcast(`5.${index}`, place(5, index))
    const socket = await openSocket(`${url}?since=5:0`)
    hub.broadcast('5.3', place(5, 3))
    expect([await socket.next(), await socket.next(), await socket.next()]).toEqual([
      ...['5.1', '5.2', '5.3'],
    ])
    expect(hub.counts).toMatchObject({ replays: 1, gaps: 0 })
  })

  test('are told what is gone', async () => {
    const { hub, url } = await start({ feedHeldFrames: 2 })
    for (const index of [0, 1, 2]) hub.broadcast(`5.${index}`, place(5, index))
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

  test('see in the answer to the handshake what is held, and whether it goes on without a gap', async () => {
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
    hub.broadcast('5.1', place(5, 1))
    hub.broadcast('5.2', place(5, 2))
    const held = `X-Feed-Held: 5:1:${PAYLOAD}`
    expect(await headers('')).toEqual([held])
    expect(await headers('?since=5:1')).toEqual([held, 'X-Feed-Resumed: 1'])
    expect(await headers('?since=5:1:')).toEqual([held, 'X-Feed-Resumed: 1'])
    expect(await headers('?since=3:1')).toEqual([held])
  })

  test('are refused with what is wrong with their question', async () => {
    const { port } = await start()
    const answer = await talk(port, handshake('?since=yesterday'))
    expect(answer).toMatch(/^HTTP\/1\.1 400 since: expected number:index or/)
  })
})

const handshake = (query: string) =>
  `GET /feed${query} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n`
