/** The WebSocket of a feed; the only file of workers/ that imports ws. */
import { WebSocket } from 'ws'
import { messageIdText } from '../../engine/flashblocks/identity.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { reasonOf, reasonOfResponse } from '../../rpc/forwarding/failures.ts'

/** No handler is called after `onClose`, which is called once. */
export type SocketHandlers = {
  /** `isResumed`: the peer sends the frames after the previous connection first. */
  onOpen(isResumed: boolean): void
  onFrame(packet: Bytes): void
  /** A ping or a pong arrived. */
  onControl(): void
  /** A message exceeds the limit; the connection ends after it. */
  onTooLarge(): void
  onClose(reason: string): void
}
export interface FeedSocket {
  readonly bytesRead: number
  ping(): void
  pause(): void
  resume(): void
  /** Closes at once, without a handshake. */
  end(): void
}
export type SocketOptions = {
  readonly url: string
  readonly maxBytes: number
  readonly resuming: Resuming
}
/** State from which a connection resumes. */
export type Resuming = {
  /** The newest message that was received; undefined if there is none. */
  newest: FeedMessageId | undefined
  /** The peer said at the last handshake that it buffers its newest frames. */
  isReplayable: boolean
}
export type OpenSocket = (handlers: SocketHandlers) => FeedSocket

/** Limits of one message: a packet of 32 MiB comes in 2,048 TLS records, and in one fragment. */
const MAX_CHUNKS = 64 << 10
const MAX_FRAGMENTS = 1_024

/**
 * Opens a connection and resumes after `newest` if the peer supports it.
 * A peer that buffers its newest frames announces this in its handshake (docs/feed.md). Other peers
 * get no query, which they would not understand.
 */
export function openWebSocket(options: SocketOptions): OpenSocket {
  const { url, maxBytes, resuming } = options
  return (handlers) => {
    const after = resuming.isReplayable ? resuming.newest : undefined
    /*
     * The peer may have been replaced by one that refuses the query, so the next connection omits
     * it.
     */
    resuming.isReplayable = false
    let isResumed = false
    const webSocket = new WebSocket(after === undefined ? url : resumedAt(url, after), {
      maxPayload: maxBytes,
      maxFragments: MAX_FRAGMENTS,
      maxBufferedChunks: MAX_CHUNKS,
      perMessageDeflate: false,
      headers: { 'user-agent': 'flashnode' },
      // The decoder refuses one invalid message; ws would close the connection.
      skipUTF8Validation: true,
      // A chunk of 64 kB may have 10,000 small frames; each gets its own turn of the event loop.
      allowSynchronousEvents: false,
    })
    let bytesRead = () => 0
    let failure = ''
    webSocket.on('upgrade', ({ socket, headers }) => {
      bytesRead = () => socket.bytesRead
      resuming.isReplayable = headers['x-feed-held'] !== undefined
      isResumed = after !== undefined && headers['x-feed-resumed'] !== undefined
    })
    webSocket.on('open', () => handlers.onOpen(isResumed))
    webSocket.on('message', (data) => handlers.onFrame(data as Buffer))
    webSocket.on('ping', handlers.onControl)
    webSocket.on('pong', handlers.onControl)
    webSocket.on('unexpected-response', (_, response) => {
      failure = `it answers with ${reasonOfResponse(response.statusCode ?? 0, '')}`
      webSocket.terminate()
    })
    // The event 'close' follows.
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

function resumedAt(text: string, messageId: FeedMessageId): string {
  const url = new URL(text)
  url.searchParams.set('since', messageIdText(messageId))
  return url.href
}
