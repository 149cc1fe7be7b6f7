/** These rows attack by connections: many, silent ones, and those whose responses are not read. */
import type { Socket } from 'node:net'
import { callOf, crowd, postOf, type Row } from './attack.ts'

const PIPELINED = 10_000
const SLOW_BYTES = 1_000
const SLOW_MS = 100

const silent: Row = {
  name: '9,900 silent connections from three addresses',
  addresses: 3,
  make: (target) => () =>
    crowd(target, { count: 9_900, perSecond: 4_000, reconnects: 1_000 }, (socket) =>
      socket.resume(),
    ),
}

const halfHeads: Row = {
  name: '3,000 sockets with half a head',
  make(target) {
    const half = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: applicat'
    return () =>
      crowd(target, { count: 3_000, perSecond: 3_000, reconnects: 500 }, (socket) => {
        socket.resume()
        socket.write(half)
      })
  },
}

/** Sends requests in one piece on each of some sockets; `read` handles the responses. */
const pipelined = (
  name: string,
  options: { readonly sockets: number; readonly requests: () => Buffer },
  read: (socket: Socket) => void,
): Row => ({
  name,
  make(target) {
    const requests = options.requests()
    return () =>
      crowd(target, { count: options.sockets, perSecond: 100, reconnects: 10 }, (socket) => {
        socket.write(requests)
        read(socket)
      })
  },
})
const small = () =>
  Buffer.concat(Array.from({ length: PIPELINED }, () => postOf(callOf('eth_blockNumber', []))))
/** Makes small requests with long responses. */
const large = () =>
  Buffer.concat(
    Array.from({ length: 300 }, (_, at) =>
      postOf(callOf(at % 2 === 0 ? 'rpc.discover' : 'eth_getBlockByNumber', ['latest', true])),
    ),
  )
const gets = () => Buffer.alloc(1_000_000, 'GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n')

const readNever = (socket: Socket) => void socket.pause()
function readSlowly(socket: Socket): void {
  socket.pause()
  const timer = setInterval(() => socket.read(SLOW_BYTES), SLOW_MS)
  socket.on('close', () => clearInterval(timer))
}

export const SOCKET_ROWS: readonly Row[] = [
  silent,
  halfHeads,
  pipelined(
    '10,000 requests on each of 20 sockets, responses never read',
    { sockets: 20, requests: small },
    readNever,
  ),
  pipelined(
    '10,000 requests on each of 20 sockets, responses read slowly',
    { sockets: 20, requests: small },
    readSlowly,
  ),
  pipelined('long responses and pages, never read', { sockets: 20, requests: large }, readNever),
  pipelined(
    'pages requested in one piece, read slowly',
    { sockets: 20, requests: gets },
    readSlowly,
  ),
]
