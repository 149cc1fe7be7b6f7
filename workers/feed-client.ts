/** Follows a flashblocks feed: connects, and connects again when the connection is lost or silent. */
import { MAX_FRAME_BYTES } from '../engine/flashblocks/codec.ts'
import { type ClientSocket, connectWebSocket } from '../rpc/websocket.ts'

export type FeedClient = { close(): void }

export type FeedEvents = {
  onState(isConnected: boolean): void
  onFrame(frame: Uint8Array): void
}

export function followFeed(
  source: { readonly feed: string; readonly headers: Readonly<Record<string, string>> },
  events: FeedEvents,
): FeedClient {
  let socket: ClientSocket | undefined
  let timer: NodeJS.Timeout | undefined
  let attempts = 0
  let isClosed = false

  function connect(): void {
    let isOpen = false
    socket = connectWebSocket(source.feed, {
      headers: source.headers,
      maxBytes: MAX_FRAME_BYTES,
      pingMs: PING_MS,
      pongMs: PONG_MS,
      onOpen() {
        isOpen = true
        events.onState(true)
      },
      onMessage(data) {
        // A server that only accepts connections does not count as one that answers.
        attempts = 0
        events.onFrame(data)
      },
      onClose() {
        if (isClosed) return
        if (isOpen) events.onState(false)
        timer = setTimeout(connect, backOffMs(attempts++, Math.random()))
      },
    })
  }
  connect()
  return {
    close() {
      isClosed = true
      clearTimeout(timer)
      socket?.close(1000, 'done')
    },
  }
}

const PING_MS = 2_000
const PONG_MS = 4_000
const FIRST_MS = 10
const LONGEST_MS = 5_000

/** Doubles up to 5 s; half of it is left to chance, so that followers of one server do not come back together. `chance`: 0 to 1. */
export function backOffMs(attempts: number, chance: number): number {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** attempts)
  return longest * (0.5 + chance / 2)
}
