/**
 * This thread relays a feed to a follower: every frame is forwarded unchanged, unless a fault is
 * set.
 */
import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { brotliCompressSync } from 'node:zlib'
import { WebSocket, WebSocketServer } from 'ws'
import type { FeedFault, RelayOptions, ToRelay } from './wires.ts'

const { target } = workerData as RelayOptions
const main = parentPort!
let fault: FeedFault = 'none'
let frames = 0
/** Counts the frames that clients received since the feed was set to fall silent. */
let passed = 0
const FEW = 10
let garbage: NodeJS.Timeout | undefined
let newest: Buffer = Buffer.of(0x1e)

const server = new WebSocketServer({
  port: 0,
  host: '127.0.0.1',
  perMessageDeflate: false,
  verifyClient: () => fault !== 'cut',
})
server.once('listening', () => {
  const { port } = server.address() as AddressInfo
  const source = new WebSocket(target, { perMessageDeflate: false })
  source.once('open', () =>
    main.postMessage({ type: 'listening', url: `ws://127.0.0.1:${port}/flashblocks` }),
  )
  source.on('error', (error) => {
    throw error
  })
  source.on('message', (data: Buffer, isBinary) => {
    frames++
    newest = data
    if (fault !== 'silence') broadcast(data, isBinary)
    if (fault === 'falls silent') passed += server.clients.size
    if (passed >= FEW) fault = 'silence'
  })
})
main.on('message', (message: ToRelay) => {
  if (message.type === 'fault') {
    fault = message.fault
    if (fault === 'cut') for (const client of server.clients) client.terminate()
    clearInterval(garbage)
    garbage = fault === 'garbage' ? setInterval(sendGarbage, GARBAGE_MS) : undefined
    main.postMessage({ type: 'done' })
  } else if (message.type === 'counts')
    main.postMessage({ type: 'counts', counts: { frames, clients: server.clients.size } })
  else process.exit(0)
})

const GARBAGE_MS = 10
/**
 * Sends garbage of a thousand bytes, which costs the sender little; larger garbage has its own
 * test.
 */
function sendGarbage(): void {
  const kinds: readonly (() => Buffer)[] = [
    () => randomBytes(1_000),
    () => Buffer.concat([Buffer.of(0x1e), randomBytes(1_000)]),
    () => Buffer.from('{"payload_id": 7'),
    () => Buffer.from(JSON.stringify({ payload_id: `0x${'00'.repeat(8)}`, index: -1 })),
    () => Buffer.concat([Buffer.of(0x1e), brotliCompressSync(Buffer.alloc(100_000, 0x5b))]),
    () => mutated(newest),
    () => newest.subarray(0, newest.length >> 1),
  ]
  broadcast(kinds[Math.floor(Math.random() * kinds.length)]!(), true)
}

function mutated(frame: Buffer): Buffer {
  const copy = Buffer.from(frame)
  for (let count = 0; count < 3; count++)
    copy[Math.floor(Math.random() * copy.length)] = Math.floor(Math.random() * 256)
  return copy
}

function broadcast(data: Buffer, binary: boolean): void {
  for (const client of server.clients) client.send(data, { binary })
}
