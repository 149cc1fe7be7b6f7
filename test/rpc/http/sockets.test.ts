/** Sockets are accepted, evicted and closed when half-open, over the real server. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { Responder } from '../../../rpc/core/exchange.ts'
import { trustedProxies } from '../../../rpc/limiter/address.ts'
import { from } from '../../fixtures/socket-from.ts'
import {
  openRaw,
  openSocket,
  startServer,
  type TestServerOptions,
  talk,
} from '../../fixtures/sockets.ts'
import { spending } from '../../fixtures/spending.ts'

async function start(options: TestServerOptions) {
  const started = await startServer(options)
  onTestFinished(() => started.server.close())
  return started
}
const request = (body: string, length = body.length) =>
  `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`
async function sendRequest(socket: Socket): Promise<string> {
  socket.write(request('1'))
  const [response] = (await once(socket, 'data')) as [Buffer]
  return response.toString()
}
const isClosed = (socket: Socket) =>
  new Promise((resolve) => socket.resume().once('close', resolve))

test('an address has a maximum of sockets, and other addresses are not affected', async () => {
  const { server, port } = await start({ limits: { socketsPerClient: 3 } })
  const own = [await from('127.0.0.2', port), await from('127.0.0.2', port)]
  const third = await from('127.0.0.2', port)
  await isClosed(await from('127.0.0.2', port))
  expect(await sendRequest(await from('127.0.0.3', port))).toContain('200 OK')
  expect(server.sockets).toMatchObject({ refused: 1, evicted: 0 })
  third.destroy()
  await expect.poll(() => server.connections()).toBe(3)
  const next = await from('127.0.0.2', port)
  for (const socket of [...own, next]) expect(await sendRequest(socket)).toContain('200 OK')
})

test('0 means no limit, and sockets of a trusted proxy are not limited', async () => {
  const proxies = trustedProxies(['127.0.0.2'])
  const options = [
    { limits: { socketsPerClient: 0 } },
    { limits: { socketsPerClient: 1 }, trustedProxies: proxies },
  ]
  for (const one of options) {
    const { server, port } = await start(one)
    const sockets = [await from('127.0.0.2', port), await from('127.0.0.2', port)]
    for (const socket of sockets) expect(await sendRequest(socket)).toContain('200 OK')
    expect(server.sockets.refused).toBe(0)
  }
})

test('at the total limit the address with the most sockets loses its oldest idle one', async () => {
  const release = Promise.withResolvers<void>()
  const respond: Responder = async (body) => {
    if (body === '2') await release.promise
    return { text: body, status: 200, headers: {} }
  }
  const { server, port } = await start({ limits: { sockets: 5 }, respond })
  const webSocket = await openSocket(`ws://127.0.0.1:${port}`)
  const busy = await from('127.0.0.2', port)
  busy.write(request('2'))
  await expect.poll(() => server.inFlight).toBe(1)
  const arriving = await from('127.0.0.2', port)
  arriving.write(request('1', 5))
  const older = await from('127.0.0.2', port)
  await sendRequest(older)
  const newer = await from('127.0.0.2', port)
  await sendRequest(newer)
  // The newer socket is the one with the last response, whichever came first.
  await sendRequest(older)
  for (const closed of [newer, older, arriving]) {
    const isGone = isClosed(closed)
    expect(await sendRequest(await from('127.0.0.3', port))).toContain('200 OK')
    await isGone
  }
  expect(server.sockets).toMatchObject({ refused: 0, evicted: 3 })
  release.resolve()
  expect(String(await once(busy, 'data'))).toContain('200 OK')
  webSocket.send('1')
  expect(await webSocket.next()).toBe('1')
  expect(await server.connections()).toBe(5)
})

test('a socket with an incomplete second request can be evicted', async () => {
  const { server, port } = await start({ limits: { sockets: 1 } })
  const first = await from('127.0.0.2', port)
  first.write(request('1') + request('1', 5))
  await once(first, 'data')
  const isGone = isClosed(first)
  expect(await sendRequest(await from('127.0.0.3', port))).toContain('200 OK')
  await isGone
  expect(server.sockets.evicted).toBe(1)
})

test('1,000 half-open sockets are closed in time, also after a blocked event loop', async () => {
  const count = 1_000
  const { server, port } = await start({
    limits: { headersMs: 3_000, socketsPerClient: 0, sockets: count + 1 },
  })
  const sockets = await Promise.all(Array.from({ length: count }, () => openRaw(port)))
  const openedAt = performance.now()
  const all = sockets.map(async (socket, at) => {
    if (at % 2 === 0) socket.write('POST / HTTP/1.1\r\nhost: loc')
    await isClosed(socket)
  })
  await expect.poll(() => server.connections()).toBe(count)
  const last = request('1').replace('\r\n', '\r\nconnection: close\r\n')
  expect(await talk(port, last)).toContain('200 OK')
  // The loop occupies the thread beyond the deadline.
  while (performance.now() - openedAt < 3_100);
  const spent = spending()
  expect(await talk(port, last)).toContain('200 OK')
  await Promise.all(all)
  expect(spent()).toBeLessThan(1_400)
  expect(server.sockets.late).toBe(count)
})

test('a client that sends half of the headers gets 408', async () => {
  const { port, server } = await start({ limits: { headersMs: 200 } })
  const startedAt = performance.now()
  expect(await talk(port, 'POST / HTTP/1.1\r\nhost: localhost\r\n')).toMatch(/^HTTP\/1.1 408 /)
  expect(performance.now() - startedAt).toBeGreaterThan(195)
  expect(server.sockets.late).toBe(1)
})
