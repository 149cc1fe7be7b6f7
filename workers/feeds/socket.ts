/** The WebSocket of a feed; the only file of workers/ that imports ws. */
import { WebSocket } from 'ws'
import { placeText } from '../../engine/flashblocks/places.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { reasonOf, reasonOfAnswer } from '../../rpc/legacy/failures.ts'

/** None is called after `onClose`, which is called once. */
export type SocketHandlers = {
  /** `isResumed`: the peer has what the connection before had not, and sends it first. */
  onOpen(isResumed: boolean): void
  onFrame(packet: Bytes): void
  /** A ping or a pong. */
  onControl(): void
  /** A message is longer than it may be: the connection ends with it. */
  onTooLarge(): void
  onClose(reason: string): void
}
export interface FeedSocket {
  /** Of the connection, so far. */
  readonly bytesRead: number
  ping(): void
  pause(): void
  resume(): void
  /** Now, without a handshake. */
  end(): void
}
export type SocketOptions = {
  readonly url: string
  readonly maxBytes: number
  readonly resuming: Resuming
}
/** What a connection goes on from. */
export type Resuming = {
  /** The newest message that has come; undefined: none has. */
  newest: FeedPlace | undefined
  /** The peer keeps its newest frames: it has said so when it was last connected to. */
  isKept: boolean
}
export type OpenSocket = (handlers: SocketHandlers) => FeedSocket

/** Of one message: a packet of 32 MiB comes in 2,048 of the records that TLS has, and in one fragment. */
const MOST_CHUNKS = 64 << 10
const MOST_FRAGMENTS = 1_024

/**
 * A peer that keeps its newest frames says so in its answer to the handshake (docs/feed.md): from then on each connection asks it for those
 * after `newest`. To any other peer the query would be a word that it does not know.
 */
export function openWebSocket(options: SocketOptions): OpenSocket {
  const { url, maxBytes, resuming } = options
  return (handlers) => {
    const after = resuming.isKept ? resuming.newest : undefined
    // It may have been replaced by one that refuses the question: the next connection asks for nothing.
    resuming.isKept = false
    let isResumed = false
    const webSocket = new WebSocket(after === undefined ? url : resumedAt(url, after), {
      maxPayload: maxBytes,
      maxFragments: MOST_FRAGMENTS,
      maxBufferedChunks: MOST_CHUNKS,
      perMessageDeflate: false,
      headers: { 'user-agent': 'flashnode' },
      // The decoder says so of one message; ws would end the connection for it.
      skipUTF8Validation: true,
      // A chunk of 64 kB has 10,000 of the smallest frames: one in each turn of the loop.
      allowSynchronousEvents: false,
    })
    let bytesRead = () => 0
    let failure = ''
    webSocket.on('upgrade', ({ socket, headers }) => {
      bytesRead = () => socket.bytesRead
      resuming.isKept = headers['x-feed-held'] !== undefined
      isResumed = after !== undefined && headers['x-feed-resumed'] !== undefined
    })
    webSocket.on('open', () => handlers.onOpen(isResumed))
    webSocket.on('message', (data) => handlers.onFrame(data as Buffer))
    webSocket.on('ping', handlers.onControl)
    webSocket.on('pong', handlers.onControl)
    webSocket.on('unexpected-response', (_, response) => {
      failure = `it answers with ${reasonOfAnswer(response.statusCode ?? 0, '')}`
      webSocket.terminate()
    })
    // 'close' follows.
    webSocket.on('error', (error: Error & { readonly code?: string }) => {
      failure ||= reasonOf(error)
      if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') handlers.onTooLarge()
    })
    webSocket.once('close', (code, reason) =>
      handlers.onClose(failure || `closed with ${code}${reason.length > 0 ? ` ${reason}` : ''}`),
    )
    return {
      get bytesRead() {
        return bytesRead()
      },
      ping: () => webSocket.ping(),
      pause: () => webSocket.pause(),
      resume: () => webSocket.resume(),
      end: () => webSocket.terminate(),
    }
  }
}

function resumedAt(text: string, place: FeedPlace): string {
  const url = new URL(text)
  url.searchParams.set('since', placeText(place))
  return url.href
}
