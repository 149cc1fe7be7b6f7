/**
 * The project relies on private parts of Node, ws and undici, which these tests check in the
 * installed versions.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterEach, describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import {
  compileLlhttp,
  PushedRequest,
  refusePeers,
  removeParser,
  stopHandle,
  takeConnections,
  writeFrames,
} from '../../../rpc/wire/internals.ts'

const open: { close(): unknown }[] = []
afterEach(() => {
  for (const one of open.splice(0).toReversed()) one.close()
})

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  open.push({
    close() {
      server.closeAllConnections()
      server.close()
    },
  })
  return (server.address() as AddressInfo).port
}
function client(port: number): Socket {
  const socket = connect(port, '127.0.0.1')
  open.push({ close: () => socket.destroy() })
  return socket.on('error', () => {})
}
const HEAD = 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\n'

describe('node:http', () => {
  test('checks the blockList of a server before it makes a socket', async () => {
    const requested: string[] = []
    const server = createServer((_, response) => response.end('served'))
    let connections = 0
    server.on('connection', () => connections++)
    let isRefused = true
    refusePeers(server, (address) => {
      requested.push(address)
      return isRefused
    })
    const port = await listen(server)
    await once(client(port), 'close')
    expect([requested, connections]).toEqual([['127.0.0.1'], 0])
    isRefused = false
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe('served')
  })

  test('gives a socket its parser in its only connection listener', async () => {
    const server = createServer((_, response) => response.end('served'))
    const toNode = takeConnections(server)
    expect(server.listenerCount('connection')).toBe(0)
    expect(() => takeConnections(server)).toThrow("expected one 'connection' listener")
    server.on('connection', toNode)
    const port = await listen(server)
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe('served')
  })

  class Pieces extends PushedRequest {
    readonly pieces: (string | null)[] = []
    onPiece: (() => void) | undefined
    override takePiece(piece: Buffer | null): boolean {
      this.pieces.push(piece?.toString() ?? null)
      this.onPiece?.()
      return this.pushToStream(piece)
    }
  }
  const takesPieces = (onRequest: (request: Pieces) => void) =>
    createServer({ IncomingMessage: Pieces }, (request, response) => {
      onRequest(request)
      request.on('data', () => {}).on('end', () => response.end('served'))
    })

  test('gives each piece of a body to push, and then null', async () => {
    const { promise, resolve } = Promise.withResolvers<Pieces>()
    const socket = client(await listen(takesPieces(resolve)))
    socket.write(`${HEAD}abc`)
    const request = await promise
    socket.write('def')
    const [response] = await once(socket, 'data')
    expect(request.pieces).toEqual(['abc', 'def', null])
    expect(String(response)).toMatch(/served/)
  })

  test('parses no further bytes once the parser is removed', async () => {
    const { promise, resolve } = Promise.withResolvers<Pieces>()
    const server = takesPieces((request) => {
      request.onPiece = () => removeParser(request.socket)
      resolve(request)
    })
    const socket = client(await listen(server))
    socket.write(
      'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n',
    )
    const request = await promise
    // A later connection is served only after all bytes of the first one were processed.
    await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    expect(request.pieces).toEqual(['a'])
  })

  test('reads no socket whose handle is stopped', async () => {
    const { promise, resolve } = Promise.withResolvers<Socket>()
    const server = createServer()
    takeConnections(server)
    let read = ''
    server.on('connection', (socket: Socket) => {
      socket.on('data', (bytes) => {
        read += String(bytes)
        if (read !== 'first') return
        socket.pause()
        stopHandle(socket)
        resolve(socket)
      })
    })
    const other = client(await listen(server))
    other.write('first')
    const socket = await promise
    // The socket asks for more in the tick after.
    await new Promise<void>((go) => process.nextTick(go))
    stopHandle(socket)
    await new Promise<void>((go) => other.write('second', () => go()))
    // The system has the bytes, so any read would happen in these turns.
    for (let turn = 0; turn < 5; turn++) await new Promise<void>((go) => setImmediate(go))
    expect([socket.bytesRead, read]).toEqual(['first'.length, 'first'])
  })

  test('reads a stopped socket with a parser again when it is resumed', async () => {
    const { promise, resolve } = Promise.withResolvers<Pieces>()
    const socket = client(await listen(takesPieces(resolve)))
    socket.write(`${HEAD}abc`)
    const request = await promise
    const stop = () => {
      request.socket.pause()
      stopHandle(request.socket)
    }
    stop()
    // The stream may ask for more in the tick after.
    await new Promise<void>((go) => process.nextTick(go))
    stop()
    const { bytesRead } = request.socket
    await new Promise<void>((go) => socket.write('def', () => go()))
    // The system has the bytes, so any read would happen in these turns.
    for (let turn = 0; turn < 5; turn++) await new Promise<void>((go) => setImmediate(go))
    expect([request.socket.bytesRead, request.pieces]).toEqual([bytesRead, ['abc']])
    request.socket.resume()
    const [response] = await once(socket, 'data')
    expect(String(response)).toMatch(/served/)
    expect(request.pieces).toEqual(['abc', 'def', null])
  })
})

test('ws writes each message to the socket at once, so frames may follow between two', async () => {
  const server = createServer()
  const port = await listen(server)
  const webSockets = new WebSocketServer({ server, perMessageDeflate: false })
  webSockets.on('connection', (webSocket, request) => {
    const socket: Duplex = request.socket
    for (const text of ['a', 'b', 'c']) {
      webSocket.send(`message ${text}`)
      writeFrames(socket, Buffer.from([0x81, 7, ...Buffer.from(`frame ${text}`)]), () => {})
    }
    webSocket.send('x'.repeat(100_000))
    writeFrames(socket, Buffer.from([0x81, 4, ...Buffer.from('last')]), () => {})
  })
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}`)
  open.push({ close: () => webSocket.terminate() })
  const texts: string[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  webSocket.on('message', (data) => {
    texts.push(String(data))
    if (texts.length === 8) resolve()
  })
  await promise
  const pairs = ['a', 'b', 'c'].flatMap((text) => [`message ${text}`, `frame ${text}`])
  expect(texts).toEqual([...pairs, 'x'.repeat(100_000), 'last'])
})

test('undici contains llhttp with the functions that the project calls', () => {
  const module = compileLlhttp()
  const exported = WebAssembly.Module.exports(module).map(({ name }) => name)
  expect(exported).toEqual(
    expect.arrayContaining([
      ...['memory', 'malloc', 'llhttp_alloc', 'llhttp_reset', 'llhttp_execute', 'llhttp_finish'],
      ...['llhttp_get_error_pos', 'llhttp_get_method'],
      ...['llhttp_get_http_major', 'llhttp_get_http_minor'],
    ]),
  )
  const imported = WebAssembly.Module.imports(module).map(({ name }) => name)
  expect(imported.toSorted()).toEqual([
    ...['wasm_on_body', 'wasm_on_header_field', 'wasm_on_header_value'],
    ...['wasm_on_headers_complete', 'wasm_on_message_begin', 'wasm_on_message_complete'],
    ...['wasm_on_status', 'wasm_on_url'],
  ])
})
