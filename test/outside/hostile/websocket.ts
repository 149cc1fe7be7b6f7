/**
 * These rows use handwritten WebSocket frames: floods of small ones, endless messages, and
 * responses that are not read.
 */
import type { Socket } from 'node:net'
import { callOf, crowd, PATHS, pace, pick, pour, type Row, type Target } from './attack.ts'

const CONTINUATION = 0
const TEXT = 1
const BINARY = 2
const PING = 9
const PONG = 10

/**
 * Makes a masked frame; the mask is zero, which leaves the payload unchanged. `length` may announce
 * more than the payload.
 */
function frame(opcode: number, payload: Buffer | string, isLast = true, length?: number): Buffer {
  const bytes = Buffer.from(payload)
  const announced = length ?? bytes.length
  const head = Buffer.alloc(announced < 126 ? 6 : announced < 65_536 ? 8 : 14)
  head[0] = opcode | (isLast ? 0x80 : 0)
  head[1] = 0x80 | (announced < 126 ? announced : announced < 65_536 ? 126 : 127)
  if (head.length === 8) head.writeUInt16BE(announced, 2)
  if (head.length === 14) head.writeBigUInt64BE(BigInt(announced), 2)
  return Buffer.concat([head, bytes])
}

const upgradeOf = (path: string) =>
  `GET ${path} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`

/** Opens this many WebSockets and calls `start` on each; received data is discarded. */
function webSockets(
  target: Target,
  count: number,
  start: (socket: Socket, which: number) => void,
  path?: string,
): void {
  crowd(target, { count, perSecond: 200, reconnects: 20 }, (socket, which) => {
    socket.write(upgradeOf(path ?? pick(target.random, PATHS)))
    socket.once('data', (data: Buffer) => {
      target.report(data.toString('latin1', 9, 12))
      socket.resume()
      if (data.toString('latin1', 9, 12) === '101') start(socket, which)
    })
  })
}

/** Sends frames in bundles of 100, with this total rate over all sockets. */
const frameFlood = (
  name: string,
  options: { readonly sockets: number; readonly perSecond: number },
  frames: () => readonly Buffer[],
): Row => ({
  name,
  make(target) {
    const bundles = frames().map((one) => Buffer.concat(Array<Buffer>(100).fill(one)))
    return () =>
      webSockets(target, options.sockets, (socket, which) =>
        pour(socket, bundles[which % bundles.length]!, options.perSecond / options.sockets / 100),
      )
  },
})

const fragments: Row = {
  name: 'WebSocket messages of fragments of a byte, 20 sockets',
  make(target) {
    const ones = (opcode: number, payload: string, count: number) =>
      Buffer.concat([
        frame(opcode, payload, false),
        ...Array<Buffer>(count).fill(frame(CONTINUATION, payload, false)),
      ])
    const message = ones(TEXT, ' ', 20_000)
    const empty = ones(BINARY, '', 20_000)
    const end = frame(CONTINUATION, ' ')
    return () =>
      webSockets(target, 20, (socket, which) =>
        pour(socket, Buffer.concat([which % 2 === 0 ? message : empty, end]), 0.25),
      )
  },
}

const unfinished: Row = {
  name: 'unfinished WebSocket messages of 2 MB, 50 sockets',
  make(target) {
    const body = Buffer.alloc(1_990_000, ' ')
    const started = frame(TEXT, body, true, 2_000_000)
    const fragment = frame(TEXT, body, false)
    return () =>
      webSockets(target, 50, (socket, which) => {
        socket.write(which % 2 === 0 ? started : fragment)
      })
  },
}

const comeAndGo: Row = {
  name: 'WebSockets that upgrade and leave, 300/s',
  make: (target) => () =>
    crowd(target, { count: 100, perSecond: 300, reconnects: 300 }, (socket, which) => {
      socket.write(upgradeOf(['/', '/flashblocks', '/feed', '/nothing'][which % 4]!))
      if (which % 3 === 0) socket.resetAndDestroy()
      else socket.once('data', () => socket.destroy())
    }),
}

const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))
const word = (at: number) => `0x${at.toString(16).padStart(64, '0')}`
const subscriptions = () =>
  [
    callOf('eth_subscribe', ['newHeads']),
    callOf('eth_subscribe', ['newPendingTransactions', true]),
    callOf('eth_subscribe', ['logs', {}]),
    callOf('eth_unsubscribe', [word(1)]),
    callOf('eth_newBlockFilter', []),
    `[${many(100, (id) => callOf('eth_subscribe', ['newHeads'], id)).join()}]`,
    `[${many(100, (id) => callOf('eth_blockNumber', [], id)).join()}]`,
  ].map((text) => frame(TEXT, text))

/** The node must match every block with all of these filters. */
const wideSubscriptions: Row = {
  name: 'subscriptions to logs of 1,000 addresses and topics, 40 sockets',
  make(target) {
    const address = many(1_000, (at) => `0x${at.toString(16).padStart(40, '0')}`)
    const query = { address, topics: many(4, () => many(900, word)) }
    const wide = frame(TEXT, callOf('eth_subscribe', ['logs', query]))
    const heads = frame(TEXT, callOf('eth_subscribe', ['newHeads']))
    return () =>
      webSockets(target, 40, (socket) => {
        pour(socket, heads, 3)
        pour(socket, wide, 1)
      })
  },
}

/** Sends requests whose responses are not read, or only a thousand bytes at a time. */
const unread = (name: string, read: (socket: Socket) => void): Row => ({
  name,
  make(target) {
    const one = frame(TEXT, callOf('eth_getBlockByNumber', ['latest', true]))
    const requests = Buffer.concat(Array<Buffer>(10_000).fill(one))
    return () =>
      webSockets(target, 20, (socket) => {
        socket.pause()
        socket.write(requests)
        read(socket)
      })
  },
})

const feedReaders: Row = {
  name: 'silent readers of /feed that never read, from three addresses',
  addresses: 3,
  make(target) {
    const pings = Buffer.concat(Array<Buffer>(10).fill(frame(PING, 'x')))
    return () =>
      webSockets(
        target,
        150,
        (socket, which) => {
          if (which % 2 === 0) socket.pause()
          else pour(socket, pings, 10)
        },
        '/feed',
      )
  },
}

export const WEBSOCKET_ROWS: readonly Row[] = [
  frameFlood('WebSocket pings and pongs, 20,000/s', { sockets: 20, perSecond: 20_000 }, () => [
    frame(PING, ''),
    frame(PONG, ''),
    frame(PING, 'x'.repeat(125)),
  ]),
  frameFlood(
    'empty and one-byte WebSocket messages, 20,000/s',
    { sockets: 20, perSecond: 20_000 },
    () => [frame(TEXT, ''), frame(TEXT, '1'), frame(BINARY, '{'), frame(TEXT, ' ')],
  ),
  fragments,
  unfinished,
  comeAndGo,
  {
    name: 'subscriptions made and ended, and batches, 2,000/s',
    make(target) {
      const texts = subscriptions()
      return () => {
        const sockets: Socket[] = []
        webSockets(target, 50, (socket) => {
          sockets.push(socket)
          socket.on('close', () => sockets.splice(sockets.indexOf(socket), 1))
        })
        pace(2_000, (count) => {
          const socket = sockets[count % sockets.length]
          if (socket?.writableNeedDrain === false) socket.write(pick(target.random, texts))
        })
      }
    },
  },
  wideSubscriptions,
  unread('10,000 messages on each of 20 WebSockets, responses never read', () => {}),
  unread('10,000 messages on each of 20 WebSockets, responses read slowly', (socket) => {
    const timer = setInterval(() => socket.read(1_000), 100)
    socket.on('close', () => clearInterval(timer))
  }),
  feedReaders,
]
