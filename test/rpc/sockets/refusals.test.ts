/**
 * Connections above a limit are tested over the real server: some get a response, and none of their
 * data is read.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { Responder } from '../../../rpc/core/exchange.ts'
import { trustedProxies } from '../../../rpc/limiter/address.ts'
import { from } from '../../fixtures/socket-from.ts'
import { startServer, type TestServerOptions } from '../../fixtures/sockets.ts'

const HEAD = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
const REQUEST = `${HEAD}content-length: 2\r\n\r\n{}`

async function start(options: TestServerOptions) {
  const started = await startServer(options)
  onTestFinished(() => started.server.close())
  return started
}
/** Gives everything received until the server closes the socket. */
async function receive(socket: Socket): Promise<string> {
  let said = ''
  socket.on('data', (piece) => {
    said += piece
  })
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
  return said
}
async function request(socket: Socket): Promise<string> {
  socket.write(REQUEST)
  return String(await once(socket, 'data'))
}

test('a limited number of excess connections get 503, the others are closed', async () => {
  const limits = { socketsPerClient: 2, refusedSocketsPerClient: 3 }
  const { server, port } = await start({ limits })
  const served = [await from('127.0.0.2', port), await from('127.0.0.2', port)]
  for (const socket of served) expect(await request(socket)).toContain('200 OK')
  const over: Promise<string>[] = []
  for (let at = 0; at < 5; at++) {
    const socket = await from('127.0.0.2', port)
    socket.write(REQUEST)
    over.push(receive(socket))
  }
  const said = await Promise.all(over)
  const reported = said.filter((text) => text !== '')
  expect(reported).toHaveLength(3)
  for (const text of reported) {
    const [head = '', body = ''] = text.split('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/)
    expect(head.split('\r\n').slice(1)).toEqual([
      'content-type: application/json',
      `content-length: ${body.length}`,
      'access-control-allow-origin: *',
      expect.stringMatching(/^access-control-expose-headers: /),
      'Retry-After: 1',
      'Connection: close',
    ])
    expect(JSON.parse(body)).toEqual({
      jsonrpc: '2.0',
      id: null,
      error: {
        code: -32005,
        message: 'too many connections from this address (--limit-sockets-per-client): at most 2',
        data: { reason: 'cap', limit: 2 },
      },
    })
  }
  expect(server.sockets.refused).toBe(5)
  for (const socket of served) expect(await request(socket)).toContain('200 OK')
  expect(await request(await from('127.0.0.3', port))).toContain('200 OK')
  // Once the refused sockets are closed, others get a response.
  const next = async () => receive(await from('127.0.0.2', port))
  await expect.poll(next).toContain('503 Service Unavailable')
})

test('503 responses are limited over all addresses together', async () => {
  const limits = { socketsPerClient: 1, refusedSocketsTotal: 2 }
  const { port } = await start({ limits })
  const reported: string[] = []
  for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.4']) {
    expect(await request(await from(address, port))).toContain('200 OK')
    const over = await from(address, port)
    const first = await Promise.race([once(over, 'data'), once(over, 'close')])
    reported.push(String(first[0]).slice(9, 12))
  }
  expect(reported.slice(0, 2)).toEqual(['503', '503'])
  expect(reported[2]).not.toBe('503')
})

test('no data of a refused connection is read, however much it sends', async () => {
  const { port, server } = await start({ limits: { socketsPerClient: 1 } })
  expect(await request(await from('127.0.0.2', port))).toContain('200 OK')
  const over = await from('127.0.0.2', port)
  over.write(`${HEAD}content-length: 64000000\r\n\r\n`)
  let taken = 0
  const megabyte = Buffer.alloc(1_000_000, ' ')
  for (let sent = 0; sent < 64; sent++)
    over.write(megabyte, (error) => {
      if (error == null) taken++
    })
  expect(await receive(over)).toContain('503 Service Unavailable')
  // The buffers of the system hold this many.
  expect(taken).toBeLessThan(32)
  expect(server.inFlight).toBe(0)
})

test('a new connection gets 503 when all connections are busy', async () => {
  const release = Promise.withResolvers<void>()
  const respond: Responder = async (body) => {
    await release.promise
    return { text: body, status: 200, headers: {} }
  }
  const { port, server } = await start({ limits: { sockets: 1 }, respond })
  const busy = await from('127.0.0.2', port)
  busy.write(REQUEST)
  await expect.poll(() => server.inFlight).toBe(1)
  const said = await receive(await from('127.0.0.3', port))
  expect(said).toContain('503 Service Unavailable')
  expect(said).toContain('"message":"server busy: all connections are in use"')
  release.resolve()
  expect(String(await once(busy, 'data'))).toContain('200 OK')
})

test('a client that a proxy names gets 503 as well', async () => {
  const { port } = await start({
    limits: { socketsPerClient: 1 },
    namingProxies: trustedProxies(['127.0.0.2']),
  })
  const header = Buffer.from('0d0a0d0a000d0a515549540a2111000cc0000201c00002020bb81f90', 'hex')
  const named = async () => {
    const socket = await from('127.0.0.2', port)
    socket.write(header)
    return request(socket)
  }
  expect(await named()).toContain('200 OK')
  expect(await named()).toContain('503 Service Unavailable')
})

test('a server that closes does not wait for refused connections', async () => {
  const { server, port } = await startServer({ limits: { socketsPerClient: 1 } })
  expect(await request(await from('127.0.0.2', port))).toContain('200 OK')
  const over = await from('127.0.0.2', port)
  await once(over, 'data')
  const isClosed = receive(over)
  await server.close()
  expect(await isClosed).toBe('')
})
