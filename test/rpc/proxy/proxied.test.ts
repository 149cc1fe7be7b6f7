/**
 * The header of the PROXY protocol is tested over the real server. It sets the address that counts,
 * for HTTP and WebSocket, or is refused.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { trustedProxies } from '../../../rpc/limiter/address.ts'
import { startServer, type TestServerOptions } from '../../fixtures/sockets.ts'

const PROXY = '127.0.0.2'
const SIGNATURE = '\r\n\r\n\0\r\nQUIT\n'
const fromClient = (address: string) =>
  Buffer.concat([
    Buffer.from(`${SIGNATURE}\x21\x11\0\x0c`, 'latin1'),
    Buffer.from([...address.split('.').map(Number), 127, 0, 0, 1, 0, 80, 0, 80]),
  ])
const LOCAL = Buffer.from(`${SIGNATURE}\x20\0\0\0`, 'latin1')
const CLIENT = fromClient('192.0.2.7')
const post = (lines = '') =>
  `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${lines}content-length: 1\r\n\r\n1`
const close = 'connection: close\r\n'

type Http = 'llhttp' | 'node'
async function start(http: Http, options: TestServerOptions = {}) {
  const refused: string[] = []
  const started = await startServer({
    http,
    namingProxies: trustedProxies([PROXY]),
    onUnnamed: (why, proxy) => void refused.push(`${proxy} ${why}`),
    ...options,
  })
  onTestFinished(() => started.server.close())
  return { ...started, refused }
}
async function open(port: number, from = PROXY): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}
async function talk(port: number, pieces: readonly (Buffer | string)[], from = PROXY) {
  const socket = await open(port, from)
  let said = ''
  socket.on('data', (chunk) => {
    said += chunk.toString('latin1')
  })
  const ended = once(socket, 'close')
  socket.setNoDelay()
  for (const piece of pieces) {
    socket.write(piece)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await ended
  return said
}

describe.each<Http>(['llhttp', 'node'])('a PROXY header read by %s', (http) => {
  test('names the client that a request counts for', async () => {
    const { port } = await start(http)
    const both = await talk(port, [Buffer.concat([CLIENT, Buffer.from(post() + post(close))])])
    expect(both.match(/"address":"192\.0\.2\.7"/g)).toHaveLength(2)
  })

  test('may arrive in pieces of one byte', async () => {
    const { port } = await start(http)
    const bytes = Buffer.concat([CLIENT, Buffer.from(post(close))])
    const pieces = Array.from({ length: CLIENT.length + 30 }, (_, at) => bytes.subarray(at, at + 1))
    const said = await talk(port, [...pieces, bytes.subarray(CLIENT.length + 30)])
    expect(said).toContain('"address":"192.0.2.7"')
  })

  test('overrides the X-Forwarded-For of its client', async () => {
    const { port } = await start(http, { trustedProxies: trustedProxies([PROXY]) })
    const forged = `x-forwarded-for: 192.0.2.9\r\n${close}`
    const bytes = Buffer.concat([CLIENT, Buffer.from(post(forged))])
    expect(await talk(port, [bytes])).toContain('"address":"192.0.2.7"')
    // On the proxy's own connection it counts, because the proxy itself sent the request.
    const own = Buffer.concat([LOCAL, Buffer.from(post(forged))])
    expect(await talk(port, [own])).toContain('"address":"192.0.2.9"')
  })

  test('with LOCAL names the proxy itself', async () => {
    const { port } = await start(http)
    const said = await talk(port, [LOCAL, post(close)])
    expect(said).toContain(`"address":"${PROXY}"`)
  })

  test('names the client that a WebSocket counts for', async () => {
    const { port } = await start(http)
    const socket = await open(port)
    const upgrade =
      'GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n' +
      'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
    socket.write(Buffer.concat([CLIENT, Buffer.from(upgrade)]))
    const [head] = (await once(socket, 'data')) as [Buffer]
    expect(head.toString()).toContain('101 Switching')
    // The bytes are a masked text frame: "1".
    socket.write(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x31]))
    const [frame] = (await once(socket, 'data')) as [Buffer]
    expect(frame.toString('latin1')).toContain('"address":"192.0.2.7"')
  })

  test('from an address that is no proxy gets 400', async () => {
    const { port, refused } = await start(http)
    const bytes = Buffer.concat([CLIENT, Buffer.from(post(close))])
    expect(await talk(port, [bytes], '127.0.0.3')).toContain('400 Bad Request')
    expect(await talk(port, [post(close)], '127.0.0.3')).toContain('"address":"127.0.0.3"')
    expect(refused).toEqual([])
  })

  test('gets 400 from everybody when no proxies are configured', async () => {
    const { port } = await start(http, { namingProxies: trustedProxies([]) })
    expect(await talk(port, [CLIENT, post(close)])).toContain('400 Bad Request')
  })

  test('closes its connection when it is missing or invalid, and reports why', async () => {
    const { server, port, refused } = await start(http, { limits: { headersMs: 300 } })
    expect(await talk(port, [post(close)])).toBe('')
    expect(await talk(port, ['PROXY TCP4 192.0.2.7 127.0.0.1 80 80\r\n', post()])).toBe('')
    expect(await talk(port, [fromClient('1.2.3.4').fill(0xff, 12, 13), post()])).toBe('')
    expect(await talk(port, [CLIENT.subarray(0, 20)])).toBe('')
    const half = await open(port)
    half.end(CLIENT.subarray(0, 20))
    await once(half.resume(), 'close')
    await expect
      .poll(() => refused)
      .toEqual([
        `${PROXY} missing`,
        `${PROXY} version 1`,
        `${PROXY} malformed`,
        `${PROXY} late`,
        `${PROXY} cut off`,
      ])
    expect(server.sockets).toMatchObject({ unnamed: 5, refused: 0 })
  })

  test('names the client that a socket counts for; others count in the total', async () => {
    const { server, port } = await start(http, { limits: { socketsPerClient: 2, sockets: 5 } })
    const own = [await open(port), await open(port), await open(port)]
    for (const socket of own) socket.write(CLIENT)
    await once(own[2]!.resume(), 'close')
    expect(server.sockets.refused).toBe(1)
    for (let more = 0; more < 3; more++) await open(port)
    await expect.poll(() => server.connections()).toBe(5)
    // Two idle sockets of one client are evicted one after another; sockets that wait for a header
    // are not.
    const next = await open(port)
    next.write(fromClient('192.0.2.8'))
    next.write(post())
    const [said] = (await once(next, 'data')) as [Buffer]
    expect(said.toString()).toContain('"address":"192.0.2.8"')
    expect(server.sockets.evicted).toBeGreaterThan(0)
  })

  test('that never arrives does not delay the close of the server', async () => {
    const { server, port } = await start(http)
    const socket = await open(port)
    await expect.poll(() => server.connections()).toBe(1)
    const gone = once(socket.resume(), 'close')
    await server.close()
    await gone
  })
})
