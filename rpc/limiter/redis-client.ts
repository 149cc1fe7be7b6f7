/** A connection to Redis that nobody waits for: what cannot be asked now fails at once. The only file that imports ioredis. */
import { Redis } from 'ioredis'

export type RedisClient = Redis

const CONNECT_MS = 2_000
/** Between two tries to connect, at most. */
const RETRY_MS = 1_000

/** @param onAway why it cannot be asked, at each error and end of the connection */
export function connectRedis(
  url: string,
  { onAway, onReady }: { readonly onAway: (reason: string) => void; readonly onReady: () => void },
): RedisClient {
  const client = new Redis(url, {
    enableOfflineQueue: false,
    // What was asked of a connection that broke may have been done: to ask again would do it twice.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_MS,
    retryStrategy: (times) => Math.min(50 * times, RETRY_MS),
  })
  client.on('error', (error: Error) => onAway(error.message))
  client.on('ready', onReady)
  client.on('close', () => onAway('the connection is closed'))
  return client
}

/** Says once why Redis cannot be asked, until it answers again. */
export interface SayOnce {
  away(reason: string): void
  back(): void
  /** Nobody is to hear of what comes now. */
  end(): void
}

export function sayOnce(say: (reason: string) => void): SayOnce {
  let [isSaid, isOver] = [false, false]
  return {
    away(reason) {
      if (isSaid || isOver) return
      isSaid = true
      say(reason)
    },
    back() {
      isSaid = false
    },
    end() {
      isOver = true
    },
  }
}
