/** Subscribers of /feed: every frame to each of them, from the moment it joined; whoever is too slow or too many is closed with 1013. */
import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Bytes } from '../engine/primitives/bytes.ts'
import type { Connection, ConnectionHandlers, Open } from './websocket.ts'

/** Header by which the node's own writer shows its token. */
export const FEED_TOKEN_HEADER = 'x-flashnode-feed'

export interface FeedHub {
  /** A connection joined. */
  readonly open: Open
  /** To every subscriber; a string goes out as text, bytes as binary. */
  broadcast(frame: string | Bytes): void
  isOwn(headers: IncomingHttpHeaders): boolean
  /** Resolves when the node's own connection has joined: who sends before that is not heard by the writer. */
  readonly ownJoined: Promise<void>
  /** The node's own left out. */
  readonly subscribers: number
  readonly counts: {
    readonly frames: number
    /** Closed because too many bytes waited. */
    readonly lagging: number
    /** Closed at once because of the limit. */
    readonly refused: number
  }
}

/**
 * `token`: a secret of this process; without one nobody is the node's own. `maxQueuedBytes` is the bound that the connections have: it
 * only tells a slow subscriber from one that is leaving.
 */
export function createFeedHub(options: {
  readonly maxSubscribers: number
  readonly maxQueuedBytes: number
  readonly token: string | undefined
  /** The node's own connection has joined. */
  readonly onOwn?: () => void
}): FeedHub {
  const others = new Set<Connection>()
  let own: Connection | undefined
  const ownJoined = Promise.withResolvers<void>()
  const counts = { frames: 0, lagging: 0, refused: 0 }

  const leave = (connection: Connection) => {
    others.delete(connection)
    if (own === connection) own = undefined
  }
  const deliver = (connection: Connection, frame: string | Bytes) => {
    if (connection.send(frame)) return
    if (connection.queuedBytes > options.maxQueuedBytes) counts.lagging++
    leave(connection)
  }
  const handlers = (connection: Connection): ConnectionHandlers => ({
    // Nothing is expected from a subscriber; pings are answered below this.
    onMessage() {},
    onClose: () => leave(connection),
  })
  return {
    open(connection) {
      if (connection.isOwn) {
        own?.close(1000, 'replaced by a newer connection')
        own = connection
        options.onOwn?.()
        ownJoined.resolve()
      } else if (others.size >= options.maxSubscribers) {
        counts.refused++
        connection.close(1013, 'subscriber limit reached, please try again later')
      } else others.add(connection)
      return handlers(connection)
    },
    broadcast(frame) {
      counts.frames++
      // The writer first: everything that is answered waits for it.
      if (own) deliver(own, frame)
      for (const connection of others) deliver(connection, frame)
    },
    ownJoined: ownJoined.promise,
    isOwn: (headers) => isSame(headers[FEED_TOKEN_HEADER], options.token),
    get subscribers() {
      return others.size
    },
    counts,
  }
}

/** In constant time for tokens of the same length. */
function isSame(given: string | string[] | undefined, token: string | undefined): boolean {
  if (typeof given !== 'string' || token === undefined) return false
  const [a, b] = [Buffer.from(given), Buffer.from(token)]
  return a.length === b.length && timingSafeEqual(a, b)
}
