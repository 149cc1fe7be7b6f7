/** Connections over a bound, over the real server: which of them are told, what they are told, and that nothing of them is read. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { trustedProxies } from '../../../rpc/seam/address.ts'
import type { Answerer } from '../../../rpc/seam/exchange.ts'
import { from } from '../../fixtures/socket-from.ts'
import { startServer, type TestServerOptions } from '../../fixtures/sockets.ts'

const HEAD = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
const REQUEST = `${HEAD}content-length: 2\r\n\r\n{}`

async function start(options: TestServerOptions) {
  const started = await startServer(options)
  onTestFinished(() => started.server.close())
  return started
}
/** All that comes, once the server has closed it. */
async function heard(socket: Socket): Promise<string> {
  let said = ''
  socket.on('data', (piece) => {
    said += piece
  })
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
  return said
}
async function ask(socket: Socket): Promise<string> {
  socket.write(REQUEST)
  return String(await once(socket, 'data'))
}

test('so many connections over the bound are answered 503, the others are closed unheard', async () => {
  const limits = { socketsPerClient: 2, refusedSocketsPerClient: 3 }
  const { server, port } = await start({ limits })
  const served = [await from('127.0.0.2', port), await from('127.0.0.2', port)]
  for (const socket of served) expect(await ask(socket)).toContain('200 OK')
  const over: Promise<string>[] = []
  for (let at = 0; at < 5; at++) {
    const socket = await from('127.0.0.2', port)
    socket.write(REQUEST)
    over.push(heard(socket))
  }
  const said = await Promise.all(over)
  const told = said.filter((text) => text !== '')
  expect(told).toHaveLength(3)
  for (const text of told) {
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
  for (const socket of served) expect(await ask(socket)).toContain('200 OK')
  expect(await ask(await from('127.0.0.3', port))).toContain('200 OK')
  // When those that were told are closed, others are told.
  const next = async () => heard(await from('127.0.0.2', port))
  await expect.poll(next).toContain('503 Service Unavailable')
})

test('all addresses together are told so often and no more', async () => {
  const limits = { socketsPerClient: 1, refusedSocketsTotal: 2 }
  const { port } = await start({ limits })
  const told: string[] = []
  for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.4']) {
    expect(await ask(await from(address, port))).toContain('200 OK')
    const over = await from(address, port)
    const first = await Promise.race([once(over, 'data'), once(over, 'close')])
    told.push(String(first[0]).slice(9, 12))
  }
  expect(told.slice(0, 2)).toEqual(['503', '503'])
  expect(told[2]).not.toBe('503')
})

test('nothing is read of who is told, however much it sends', async () => {
  const { port, server } = await start({ limits: { socketsPerClient: 1 } })
  expect(await ask(await from('127.0.0.2', port))).toContain('200 OK')
  const over = await from('127.0.0.2', port)
  over.write(`${HEAD}content-length: 64000000\r\n\r\n`)
  let taken = 0
  const megabyte = Buffer.alloc(1_000_000, ' ')
  for (let sent = 0; sent < 64; sent++)
    over.write(megabyte, (error) => {
      if (error == null) taken++
    })
  expect(await heard(over)).toContain('503 Service Unavailable')
  // As many as the buffers of the system hold.
  expect(taken).toBeLessThan(32)
  expect(server.inFlight).toBe(0)
})

test('where every socket is busy a newcomer is told that the server is', async () => {
  const release = Promise.withResolvers<void>()
  const answer: Answerer = async (body) => {
    await release.promise
    return { text: body, status: 200, headers: {} }
  }
  const { port, server } = await start({ limits: { sockets: 1 }, answer })
  const busy = await from('127.0.0.2', port)
  busy.write(REQUEST)
  await expect.poll(() => server.inFlight).toBe(1)
  const said = await heard(await from('127.0.0.3', port))
  expect(said).toContain('503 Service Unavailable')
  expect(said).toContain('"message":"server busy: all connections are in use"')
  release.resolve()
  expect(String(await once(busy, 'data'))).toContain('200 OK')
})

test('a client that a proxy names is told as well', async () => {
  const { port } = await start({
    limits: { socketsPerClient: 1 },
    namingProxies: trustedProxies(['127.0.0.2']),
  })
  const header = Buffer.from('0d0a0d0a000d0a515549540a2111000cc0000201c00002020bb81f90', 'hex')
  const named = async () => {
    const socket = await from('127.0.0.2', port)
    socket.write(header)
    return ask(socket)
  }
  expect(await named()).toContain('200 OK')
  expect(await named()).toContain('503 Service Unavailable')
})

test('a server that closes does not wait for who was told', async () => {
  const { server, port } = await startServer({ limits: { socketsPerClient: 1 } })
  expect(await ask(await from('127.0.0.2', port))).toContain('200 OK')
  const over = await from('127.0.0.2', port)
  await once(over, 'data')
  const isClosed = heard(over)
  await server.close()
  expect(await isClosed).toBe('')
})
