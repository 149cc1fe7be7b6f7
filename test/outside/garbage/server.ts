/**
 * A feed, in a process of its own, so that its memory and its work are nobody else's. The honest one sends a flashblock in each cadence;
 * the other one garbage as fast as it is taken, with a good flashblock after each tenth, and now and then a message that is too long.
 * Told by `process.send`: what it has sent, once it is asked to end.
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import { encodePacket, socketData } from '../../../engine/flashblocks/codec.ts'
import { mulberry32 } from '../../kit/run-options.ts'
import { flashblock, GARBAGE, type Garbage, MOST_BYTES } from './inputs.ts'

export type ServerOptions = {
  readonly isHonest: boolean
  readonly seed: number
  readonly cadenceMs: number
  /** Bytes of garbage after which no more is sent. */
  readonly mostBytes: number
}
export type ToServer = { readonly type: 'begin' } | { readonly type: 'end' }
export type FromServer =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'sent'; readonly sent: Sent }
  /** All bytes of garbage are sent. */
  | { readonly type: 'empty' }
export type Sent = {
  /** Good ones: their numbers are 0 to this. */
  readonly good: number
  readonly frames: number
  readonly bytes: number
  readonly connections: number
  readonly kinds: Readonly<Record<string, number>>
}

/** Garbage has no more frames a second than a feed may have. */
const LEAST_BETWEEN_MS = 6
const GOOD_EACH = 10
const TOO_LONG_EACH = 60
/** Of the magnitude that garbage may have: 12 MB. */
const LARGE = 0.9
/** How much may wait in the socket: what is not sent when the connection ends is lost. */
const QUEUED_BYTES = 1 << 20

if (import.meta.main) await run(JSON.parse(process.argv[2]!) as ServerOptions)

async function run(options: ServerOptions): Promise<void> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false })
  await once(server, 'listening')
  const tell = (message: FromServer) => void process.send?.(message)
  const feed = options.isHonest ? honestFeed(options) : garbageFeed(options, tell)
  server.on('connection', (socket) => {
    socket.on('error', () => {})
    feed.joined(socket)
  })
  process.on('message', async ({ type }: ToServer) => {
    if (type === 'begin') return feed.begin()
    // The sockets stay open, for what is under way: whoever has started this process ends it.
    tell({ type: 'sent', sent: await feed.end() })
  })
  process.once('disconnect', () => process.exit())
  tell({ type: 'listening', port: (server.address() as AddressInfo).port })
}

interface Feed {
  joined(socket: WebSocket): void
  begin(): void
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
    // Mostly small, some as large as a full block.
    const size = random() < 0.05 ? 1_000_000 : 2_000 + random() * 40_000
    const packet = encodePacket(flashblock(good++, size), good % 2 ? 'plain' : 'xlayer')
    bytes += packet.length
    socket?.send(socketData(packet))
  }
  return {
    joined(opened) {
      connections++
      socket = opened
    },
    begin() {
      timer = setInterval(send, cadenceMs)
    },
    async end() {
      clearInterval(timer)
      return { good, bytes, connections, frames: good, kinds: {} }
    },
  }
}

function garbageFeed(
  { seed, mostBytes }: ServerOptions,
  tell: (message: FromServer) => void,
): Feed {
  const random = mulberry32(seed)
  const kinds: Record<string, number> = {}
  const made = new Map<string, Buffer>()
  let socket: WebSocket | undefined
  let hasJoined = Promise.withResolvers<void>()
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
    await sleep(LEAST_BETWEEN_MS)
  }
  /** Without anything behind it: the connection ends with it. */
  async function sendTooLong(to: WebSocket): Promise<void> {
    const closed = once(to, 'close')
    to.send(Buffer.alloc(MOST_BYTES + 1))
    await closed
  }
  function pick(): Buffer {
    // Each of them once first, and large; then any.
    const first = GARBAGE[picked++]
    if (first !== undefined) return make(first, firstOf(LARGE, random))
    return make(GARBAGE[Math.floor(random() * GARBAGE.length)]!, random)
  }
  function make(kind: Garbage, random: () => number): Buffer {
    kinds[kind.name] = (kinds[kind.name] ?? 0) + 1
    // Those that are always the same take a second to make.
    const known = made.get(kind.name)
    if (known !== undefined) return known
    const data = kind.make(random)
    if (kind.make.length === 0) made.set(kind.name, data)
    return data
  }
  async function run(): Promise<void> {
    for (let turn = 1; !isOver; turn++) {
      await hasJoined.promise
      const to = socket!
      if (turn % TOO_LONG_EACH === 0) {
        hasJoined = Promise.withResolvers()
        await sendTooLong(to)
      } else if (turn % GOOD_EACH === 0 || bytes >= mostBytes)
        await send(to, encodePacket(flashblock(good++, 5_000)))
      else {
        await send(to, pick())
        if (bytes >= mostBytes) tell({ type: 'empty' })
      }
    }
  }
  return {
    joined(opened) {
      connections++
      socket = opened
      hasJoined.resolve()
    },
    begin() {
      running = run()
    },
    async end() {
      isOver = true
      hasJoined.resolve()
      await running
      return { good, frames, bytes, connections, kinds }
    },
  }
}

/** This number, then those. */
function firstOf(number: number, rest: () => number): () => number {
  let isFirst = true
  return () => {
    if (!isFirst) return rest()
    isFirst = false
    return number
  }
}
