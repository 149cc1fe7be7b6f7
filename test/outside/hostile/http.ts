/**
 * These rows attack HTTP itself: the ways in which a body arrives, and requests that are refused.
 */
import type { Socket } from 'node:net'
import {
  callOf,
  crowd,
  dial,
  headOf,
  listen,
  pace,
  pick,
  post,
  postOf,
  pour,
  type Row,
  type Target,
} from './attack.ts'

const BYTES = 1_990_000
const CHUNKED = ['transfer-encoding: chunked']
/** Makes a request of the maximum length. */
const longBody = () => Buffer.from(callOf('web3_sha3', [`0x${'ab'.repeat(BYTES / 2 - 100)}`]))

/** Makes a body in chunks of this size, each with the extension after its size. */
function chunked(body: Buffer, size: number, extension = '', trailers = ''): Buffer {
  const head = Buffer.from(`${size.toString(16)}${extension}\r\n`)
  const count = Math.floor(body.length / size)
  const one = head.length + size + 2
  const rest = body.subarray(count * size)
  const last =
    rest.length === 0 ? '' : `${rest.length.toString(16)}\r\n${rest.toString('latin1')}\r\n`
  const bytes = Buffer.alloc(count * one)
  for (let at = 0; at < count; at++) {
    head.copy(bytes, at * one)
    body.copy(bytes, at * one + head.length, at * size, (at + 1) * size)
    bytes[(at + 1) * one - 2] = 13
    bytes[(at + 1) * one - 1] = 10
  }
  return Buffer.concat([bytes, Buffer.from(`${last}0\r\n${trailers}\r\n`)])
}

/** Opens sockets that send these requests, one request for each new socket. */
function senders(target: Target, sockets: number, requests: readonly Buffer[]): void {
  crowd(target, { count: sockets, perSecond: 100, reconnects: 20 }, (socket) => {
    socket.write(pick(target.random, requests))
    socket.once('data', (data: Buffer) => {
      target.report(data.toString('latin1', 9, 12))
      socket.destroy()
    })
  })
}

const chunkRow = (name: string, sockets: number, requests: () => readonly Buffer[]): Row => ({
  name,
  make(target) {
    const made = requests().map((body) => Buffer.concat([headOf(CHUNKED), body]))
    return () => senders(target, sockets, made)
  },
})

/** The row continues a body for as long as the server allows, refused or not. */
const endless: Row = {
  name: 'bodies that continue after their refusal, 10 sockets',
  make(target) {
    const megabyte = Buffer.alloc(1_000_000, ' ')
    const chunk = Buffer.concat([Buffer.from('f4240\r\n'), megabyte, Buffer.from('\r\n')])
    return () =>
      crowd(target, { count: 10, perSecond: 100, reconnects: 10 }, (socket, which) => {
        listen(target, socket)
        const isChunked = which % 2 === 0
        socket.write(isChunked ? headOf(CHUNKED) : headOf(1e9))
        pour(socket, isChunked ? chunk : megabyte, 10)
      })
  },
}

/** Twenty sockets send 20,000 pieces a second, as far as the system does not join them. */
const bytePieces: Row = {
  name: 'bodies in pieces of one byte, 20 sockets',
  make(target) {
    const request = postOf(longBody())
    return () =>
      crowd(target, { count: 20, perSecond: 100, reconnects: 20 }, (socket) => {
        listen(target, socket)
        let at = 0
        const timer = setInterval(() => {
          for (let piece = 0; piece < 10; piece++) socket.write(request.subarray(at, ++at))
        }, 10)
        socket.on('close', () => clearInterval(timer))
      })
  },
}

const byteASecond: Row = {
  name: '400 sockets that send a byte a second',
  addresses: 2,
  make(target) {
    const texts = [
      postOf(callOf('eth_chainId', [])),
      Buffer.from('GET /healthz HTTP/1.1\r\nhost: x'),
    ]
    const started = [
      headOf(1_000),
      headOf(CHUNKED),
      Buffer.from('POST / HTTP/1.1\r\nhost: localhost\r\n'),
    ]
    return () =>
      crowd(target, { count: 400, perSecond: 400 }, (socket) => {
        listen(target, socket)
        if (target.random() < 0.7) socket.write(pick(target.random, started))
        const text = pick(target.random, texts)
        let at = 0
        const timer = setInterval(() => socket.write(text.subarray(at, ++at)), 1_000)
        socket.on('close', () => clearInterval(timer))
      })
  },
}

const announced: Row = {
  name: '2 MB announced, then nothing or all but 1 kB, 200 sockets',
  make(target) {
    const nearly = longBody().subarray(0, BYTES - 1_000)
    const expecting = headOf(['content-length: 2000000', 'expect: 100-continue'])
    return () =>
      crowd(target, { count: 200, perSecond: 200 }, (socket, which) => {
        listen(target, socket)
        socket.write(which % 5 === 0 ? expecting : headOf(2_000_000))
        if (which % 2 === 0) socket.write(nearly)
      })
  },
}

/** Sends nearly all of a body and then nothing; most bodies exceed the client's points. */
const stopped = (name: string, bytes: () => Buffer): Row => ({
  name,
  addresses: 3,
  make(target) {
    const started = bytes()
    return () =>
      crowd(target, { count: 200, perSecond: 4_000, reconnects: 100 }, (socket) => {
        listen(target, socket)
        socket.write(started)
      })
  },
})
const NEARLY = 1_800_000

/** Sends these requests this often a second over persistent sockets. */
function flood(target: Target, perSecond: number, requests: readonly Buffer[]): void {
  const sockets: Socket[] = []
  crowd(target, { count: 50, perSecond: 500 }, (socket) => {
    listen(target, socket)
    sockets.push(socket)
    socket.on('close', () => sockets.splice(sockets.indexOf(socket), 1))
  })
  pace(perSecond, (count) => {
    const socket = sockets[count % sockets.length]
    if (socket === undefined || socket.writableNeedDrain) target.report('held back')
    else socket.write(pick(target.random, requests))
  })
}
const floodRow = (name: string, perSecond: number, requests: () => readonly Buffer[]): Row => ({
  name,
  make(target) {
    const made = requests()
    return () => flood(target, perSecond, made)
  },
})

const newConnections: Row = {
  name: '400 requests/s beyond the limit, a connection each',
  make(target) {
    const requests = usual()
    return () => pace(400, () => post(target, 'usual', [pick(target.random, requests)]))
  },
}
const usual = () => [
  postOf(callOf('eth_blockNumber', [])),
  postOf(callOf('eth_getBalance', [`0x${'0'.repeat(40)}`, 'latest']), '/flashblocks'),
  postOf('{}'),
  postOf('nothing'),
  expecting('x'),
]
/** Node itself responds to an unknown expectation, outside of every limit. */
function expecting(what: string): Buffer {
  const head = headOf([`expect: ${what}`, 'content-length: 2'])
  return Buffer.concat([head, line('{}')])
}
const batches = () => [
  ...[1_000, 999, 1_001, 101, 100].map((count) =>
    postOf(`[${Array.from({ length: count }, (_, id) => callOf('eth_chainId', [], id)).join()}]`),
  ),
  postOf(
    `[${Array.from({ length: 100 }, (_, id) => callOf('rpc_modules', [], '.'.repeat(20) + id)).join()}]`,
  ),
  postOf(`[${'1,'.repeat(999)}1]`),
  postOf(`[${'{},'.repeat(999)}{}]`),
]

const line = (text: string) => Buffer.from(text, 'latin1')
/** Makes pipelined requests, as many as fit into a few reads. */
const manyHeaders = () => [
  line(
    `POST / HTTP/1.1\r\nhost: localhost\r\n${'x-1: \xe9\r\n'.repeat(799)}content-length: 2\r\n\r\n{}`.repeat(
      40,
    ),
  ),
]
const pipelined = () => {
  const plain = Buffer.concat(Array(100).fill(postOf(callOf('eth_chainId', []))))
  return ['', 'POST / HTTP/1.1\r\nhost: a\r\n\r\n', '\0'].map((rest) =>
    Buffer.concat([plain, line(rest)]),
  )
}
/** Makes invalid requests, which a parser of HTTP refuses at once or after a while. */
const noRequests = () => [
  line('nonsense\r\n\r\n'),
  line('\0'.repeat(1_000)),
  line('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'),
  line('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  line('POST / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n'),
  line('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello'),
  line('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n'),
  line('POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n'),
  line('POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n'),
  line('POST / HTTP/9.9\r\nhost: a\r\n\r\n'),
  line(`POST /${'a'.repeat(14_000)} HTTP/1.1\r\nhost: localhost\r\n\r\n`),
  line(`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(15_000)}\r\n\r\n`),
  line(`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`),
  line(`GET / HTTP/1.1\r\nhost: localhost\r\n${'a:b\r\n'.repeat(2_000)}\r\n`),
  line(`GET / HTTP/1.1\r\nhost: localhost\r\n${'x-forwarded-for: 1.2.3.4\r\n'.repeat(500)}\r\n`),
  line('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
]
const gets = () => [
  ...['x', '100ontinue', `${'x'.repeat(2_000)}`].map(expecting),
  line('GET / HTTP/1.1\r\nhost: localhost\r\nexpect: x\r\n\r\n'),
  ...['/', '/flashblocks', '/healthz', '/readyz', '/feed', '/nothing', '/%ff%00', '/?a=b'].map(
    (path) => line(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`),
  ),
  ...['HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'].map((method) =>
    line(`${method} / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n`),
  ),
  line(
    'OPTIONS / HTTP/1.1\r\nhost: localhost\r\norigin: http://a\r\naccess-control-request-method: POST\r\n\r\n',
  ),
  line('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}'),
  line(
    'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}',
  ),
  line(
    'POST / HTTP/1.1\r\nhost: elsewhere\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}',
  ),
]

export const HTTP_ROWS: readonly Row[] = [
  chunkRow('chunks of a byte, 2 MB each, 40 sockets', 40, () => [chunked(longBody(), 1)]),
  chunkRow('chunks of three bytes, 2 MB each, 16 sockets', 16, () => [chunked(longBody(), 3)]),
  chunkRow('chunks of 2 to 64 bytes, 2 MB each, 40 sockets', 40, () =>
    [2, 7, 17, 64].map((size) => chunked(longBody(), size)),
  ),
  chunkRow('chunks of a kilobyte, 2 MB each, 40 sockets', 40, () => [chunked(longBody(), 1_024)]),
  chunkRow('chunks with extensions and trailers, 16 sockets', 16, () => [
    chunked(longBody().subarray(0, 500_000), 1, `;${'a'.repeat(20)}=b`),
    chunked(longBody().subarray(0, 100_000), 1, `;a="${'b'.repeat(100)}"`),
    chunked(longBody(), 100, '', 'x: y\r\n'.repeat(1_900)),
    chunked(longBody(), 1_000, `;${'a'.repeat(15_000)}`),
  ]),
  endless,
  bytePieces,
  byteASecond,
  announced,
  stopped('1.8 MB of 2 and no more, 200 sockets of three addresses', () =>
    Buffer.concat([headOf(2_000_000), longBody().subarray(0, NEARLY)]),
  ),
  floodRow('2,000 requests/s beyond the limit, 50 sockets', 2_000, usual),
  newConnections,
  floodRow('batches of 100 to 1,000, 60/s', 60, batches),
  {
    name: 'invalid HTTP, long and many headers, 400/s',
    make(target) {
      const texts = noRequests()
      return () => pace(400, (count) => post(target, 'none', [pick(target.random, texts)], count))
    },
  },
  floodRow('40 requests of 799 headers at once, 50/s', 50, manyHeaders),
  floodRow('100 plain requests at once, and what is not behind them, 50/s', 50, pipelined),
  floodRow('GET and other methods, 2,000/s', 2_000, gets),
  {
    name: 'connections that end at once, 500/s',
    make: (target) => () =>
      pace(500, (count) => {
        const socket = dial(target)
        socket.on('connect', () => {
          if (count % 2 === 0) socket.resetAndDestroy()
          else socket.end(pick(target.random, usual()))
        })
        socket.on('data', () => socket.destroy())
      }),
  },
]
