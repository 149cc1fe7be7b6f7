/** Subscribers of /feed: every packet to each of them, from the moment it joined; whoever is too slow or too many is closed with 1013. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Limits } from '../seam/limits.ts'
import type { Connection, ConnectionHandlers, Open } from './websocket.ts'

export interface FeedHub {
  /** A connection joined. */
  readonly open: Open
  /** To every subscriber; a string goes out as text, bytes as binary. */
  broadcast(packet: string | Bytes): void
  readonly subscribers: number
  readonly counts: {
    readonly packets: number
    /** Closed because too many bytes waited. */
    readonly lagging: number
    /** Closed at once because of the limit. */
    readonly refused: number
  }
}

/** `feedQueueBytes` is the bound that the connections have: it only tells a slow subscriber from one that is leaving. */
export function createFeedHub(limits: Pick<Limits, 'feedSubscribers' | 'feedQueueBytes'>): FeedHub {
  const subscribers = new Set<Connection>()
  const counts = { packets: 0, lagging: 0, refused: 0 }

  const deliver = (connection: Connection, packet: string | Bytes) => {
    if (connection.send(packet)) return
    if (connection.queuedBytes > limits.feedQueueBytes) counts.lagging++
    subscribers.delete(connection)
  }
  const handlers = (connection: Connection): ConnectionHandlers => ({
    onClose: () => void subscribers.delete(connection),
  })
  return {
    open(connection) {
      if (subscribers.size >= limits.feedSubscribers) {
        counts.refused++
        connection.close(1013, 'subscriber limit reached, please try again later')
      } else subscribers.add(connection)
      return handlers(connection)
    },
    broadcast(packet) {
      counts.packets++
      for (const connection of subscribers) deliver(connection, packet)
    },
    get subscribers() {
      return subscribers.size
    },
    counts,
  }
}
