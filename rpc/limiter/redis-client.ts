/**
 * Connection to Redis that fails a request at once if it cannot be sent. Only this file imports
 * ioredis.
 */
import { Redis } from 'ioredis'

export type RedisClient = Redis

const CONNECT_MS = 2_000
/** Maximum milliseconds between two attempts to connect. */
const RETRY_MS = 1_000

/**
 * Connects to Redis.
 * @param onDisconnected called with the reason at each error and end of the connection
 */
export function connectRedis(
  url: string,
  {
    onDisconnected,
    onReady,
  }: { readonly onDisconnected: (reason: string) => void; readonly onReady: () => void },
): RedisClient {
  const client = new Redis(url, {
    enableOfflineQueue: false,
    // Redis may have run the commands of a broken connection, so sending them again could charge
    // twice.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_MS,
    retryStrategy: (times) => Math.min(50 * times, RETRY_MS),
  })
  client.on('error', (error: Error) => onDisconnected(error.message))
  client.on('ready', onReady)
  client.on('close', () => onDisconnected('the connection is closed'))
  return client
}

/** Logs once that Redis is unavailable, until it responds again. */
export interface LogOnce {
  disconnected(reason: string): void
  back(): void
  /** Suppresses all further logs. */
  end(): void
}

export function logOnce(log: (reason: string) => void): LogOnce {
  let [isSaid, isOver] = [false, false]
  return {
    disconnected(reason) {
      if (isSaid || isOver) return
      isSaid = true
      log(reason)
    },
    back() {
      isSaid = false
    },
    end() {
      isOver = true
    },
  }
}
