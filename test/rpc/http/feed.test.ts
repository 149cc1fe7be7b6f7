/** The hub behind /feed, over real sockets. */
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { createFeedHub } from '../../../rpc/http/feed.ts'
import type { Server } from '../../../rpc/http/server.ts'
import { openRaw, openSocket, startServer } from '../../fixtures/sockets.ts'

const started: Server[] = []
afterEach(async () => {
  for (const server of started.splice(0)) await server.close()
})

async function start(options: { feedSubscribers?: number; feedQueueBytes?: number } = {}) {
  const { feedSubscribers = 2, feedQueueBytes = 1_000_000 } = options
  const hub = createFeedHub({ feedSubscribers, feedQueueBytes })
  const { server, port } = await startServer({
    feed: hub.open,
    limits: { feedQueueBytes, connectionsPerClient: 3 },
  })
  started.push(server)
  return { hub, port, url: `ws://127.0.0.1:${port}/feed` }
}

describe('subscribers', () => {
  test('get every packet from the moment they joined, in order', async () => {
    const { hub, url } = await start()
    const first = await openSocket(url)
    hub.broadcast('0')
    const second = await openSocket(url)
    hub.broadcast('1')
    hub.broadcast(Buffer.from('2'))
    expect([await first.next(), await first.next(), await first.next()]).toEqual(['0', '1', '2'])
    expect([await second.next(), await second.next()]).toEqual(['1', '2'])
    expect(hub.counts).toEqual({ packets: 3, lagging: 0, refused: 0 })
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
    hub.broadcast('x')
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
      hub.broadcast(frame)
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
    hub.broadcast('x')
    expect(await socket.next()).toBe('x')
  })
})
