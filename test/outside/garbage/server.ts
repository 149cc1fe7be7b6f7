/**
 * A feed runs in its own process, so that its memory and its work are separate. The honest feed
 * sends a flashblock in each cadence. The other feed sends garbage as fast as it is taken, with a
 * good flashblock after each tenth. Sometimes it sends a message that is too long. When the process
 * is asked to end, it reports what it has sent by `process.send`.
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import { encodePacket, socketData } from '../../../engine/flashblocks/codec.ts'
import { mulberry32 } from '../../kit/run-options.ts'
import { flashblock, GARBAGE, type Garbage, MAX_BYTES } from './inputs.ts'

export type ServerOptions = {
  readonly isHonest: boolean
  readonly seed: number
  readonly cadenceMs: number
  /** The bytes of garbage after which the feed sends no more. */
  readonly maxBytes: number
}
export type ToServer = { readonly type: 'begin' } | { readonly type: 'end' }
export type FromServer =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'sent'; readonly sent: Sent }
  /** All bytes of garbage are sent. */
  | { readonly type: 'empty' }
export type Sent = {
  /** The number of good flashblocks, which are numbered from 0. */
  readonly good: number
  readonly frames: number
  readonly bytes: number
  readonly connections: number
  readonly kinds: Readonly<Record<string, number>>
}

/** The interval limits garbage to the frames a second that a feed may have. */
const MIN_BETWEEN_MS = 6
const GOOD_EACH = 10
const TOO_LONG_EACH = 60
/** The draw for the size of large garbage, which gives 12 MB. */
const LARGE = 0.9
/** This many bytes may wait in the socket; they are lost when the connection ends. */
const QUEUED_BYTES = 1 << 20

if (import.meta.main) await run(JSON.parse(process.argv[2]!) as ServerOptions)

async function run(options: ServerOptions): Promise<void> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false })
  await once(server, 'listening')
  const notify = (message: FromServer) => void process.send?.(message)
  const feed = options.isHonest ? honestFeed(options) : garbageFeed(options, notify)
  server.on('connection', (socket) => {
    socket.on('error', () => {})
    feed.connected(socket)
  })
  process.on('message', async ({ type }: ToServer) => {
    if (type === 'begin') return feed.start()
    // The sockets stay open for data in transit, and the parent process ends this one.
    notify({ type: 'sent', sent: await feed.end() })
  })
  process.once('disconnect', () => process.exit())
  notify({ type: 'listening', port: (server.address() as AddressInfo).port })
}

interface Feed {
  connected(socket: WebSocket): void
  start(): void
  end(): Promise<Sent>
}

function honestFeed({ cadenceMs, seed }: ServerOptions): Feed {
  const random = mulberry32(seed)
  let socket: WebSocket | undefined
  let connections = 0
  let good = 0
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const send = () => {
    // Most flashblocks are small, and some are as large as a full block.
    const size = random() < 0.05 ? 1_000_000 : 2_000 + random() * 40_000
    const packet = encodePacket(flashblock(good++, size), good % 2 ? 'plain' : 'xlayer')
    bytes += packet.length
    socket?.send(socketData(packet))
  }
  return {
    connected(opened) {
      connections++
      socket = opened
    },
    start() {
      timer = setInterval(send, cadenceMs)
    },
    async end() {
      clearInterval(timer)
      return { good, bytes, connections, frames: good, kinds: {} }
    },
  }
}

function garbageFeed(
  { seed, maxBytes }: ServerOptions,
  notify: (message: FromServer) => void,
): Feed {
  const random = mulberry32(seed)
  const kinds: Record<string, number> = {}
  const made = new Map<string, Buffer>()
  let socket: WebSocket | undefined
  let hasConnected = Promise.withResolvers<void>()
  let connections = 0
  let good = 0
  let frames = 0
  let bytes = 0
  let picked = 0
  let isOver = false
  let running = Promise.resolve()

  async function send(to: WebSocket, data: Uint8Array): Promise<void> {
    frames++
    bytes += data.length
    to.send(data)
    while (to.bufferedAmount > QUEUED_BYTES && to.readyState === to.OPEN) await sleep(1)
    await sleep(MIN_BETWEEN_MS)
  }
  /** Sends a message that is too long as the last one, because the connection ends with it. */
  async function sendTooLong(to: WebSocket): Promise<void> {
    const closed = once(to, 'close')
    to.send(Buffer.alloc(MAX_BYTES + 1))
    await closed
  }
  function pick(): Buffer {
    // Each kind comes once first, in a large size; then the kinds are random.
    const first = GARBAGE[picked++]
    if (first !== undefined) return make(first, firstOf(LARGE, random))
    return make(GARBAGE[Math.floor(random() * GARBAGE.length)]!, random)
  }
  function make(kind: Garbage, random: () => number): Buffer {
    kinds[kind.name] = (kinds[kind.name] ?? 0) + 1
    // Kinds without randomness are made once, because each takes a second to make.
    const known = made.get(kind.name)
    if (known !== undefined) return known
    const data = kind.make(random)
    if (kind.make.length === 0) made.set(kind.name, data)
    return data
  }
  async function run(): Promise<void> {
    for (let turn = 1; !isOver; turn++) {
      await hasConnected.promise
      const to = socket!
      if (turn % TOO_LONG_EACH === 0) {
        hasConnected = Promise.withResolvers()
        await sendTooLong(to)
      } else if (turn % GOOD_EACH === 0 || bytes >= maxBytes)
        await send(to, encodePacket(flashblock(good++, 5_000)))
      else {
        await send(to, pick())
        if (bytes >= maxBytes) notify({ type: 'empty' })
      }
    }
  }
  return {
    connected(opened) {
      connections++
      socket = opened
      hasConnected.resolve()
    },
    start() {
      running = run()
    },
    async end() {
      isOver = true
      hasConnected.resolve()
      await running
      return { good, frames, bytes, connections, kinds }
    },
  }
}

/** Gives this number first, then the others. */
function firstOf(number: number, rest: () => number): () => number {
  let isFirst = true
  return () => {
    if (!isFirst) return rest()
    isFirst = false
    return number
  }
}
