/**
 * `--flashblock-lag` with `--share-transactions`: replicas announce their flashblocks over a Redis
 * channel. So all replicas make a flashblock visible at the same time, whichever had it first. An
 * announcement is a hint. Without one, this node's own flashblocks decide.
 */
import { randomBytes } from 'node:crypto'
import type { ChainPosition } from '../../engine/views/visibility.ts'
import { connectRedis, logOnce } from '../../rpc/limiter/redis-client.ts'
import type { Report } from '../observe/reporter.ts'

export interface SharedPositions {
  /** Announces a flashblock of this node. */
  had(position: ChainPosition): void
  stats(): Readonly<Record<string, number>>
  close(): void
}

export type SharedPositionsOptions = {
  readonly url: string
  readonly chainId: bigint
  readonly onPosition: (position: ChainPosition) => void
  readonly report: Report
}

/**
 * Maximum number of unconfirmed messages; more are dropped, because only the newest position
 * matters.
 */
const MAX_OPEN = 64
/** Maximum length of a message; longer ones are not from a replica. */
const MAX_CHARS = 64

export function sharePositions({
  url,
  chainId,
  onPosition,
  report,
}: SharedPositionsOptions): SharedPositions {
  const channel = `flashnode:places:${chainId}`
  /** Origin of this node's messages, to skip them on receipt. */
  const own = randomBytes(8).toString('hex')
  const counts = { sent: 0, unsent: 0, received: 0 }
  let open = 0
  const once = logOnce((reason) => report('places_not_shared', { reason }))
  const connect = (onReady: () => void) =>
    connectRedis(url, { onDisconnected: once.disconnected, onReady })
  const writer = connect(once.back)
  const listener = connect(() => {
    listener.subscribe(channel).catch((error: Error) => once.disconnected(error.message))
  })
  listener.on('message', (_, text: string) => {
    const received = decodePositionMessage(text)
    if (received === undefined || received.origin === own) return
    counts.received++
    onPosition(received.position)
  })
  return {
    had({ height, index }) {
      if (open >= MAX_OPEN) {
        counts.unsent++
        return
      }
      open++
      writer
        .publish(channel, `${own} ${height} ${index}`)
        .then(
          () => counts.sent++,
          (error: Error) => {
            counts.unsent++
            once.disconnected(error.message)
          },
        )
        .finally(() => open--)
    },
    stats: () => ({
      placesTold: counts.sent,
      placesUntold: counts.unsent,
      placesHeard: counts.received,
    }),
    close() {
      once.end()
      for (const client of [writer, listener]) client.disconnect()
    },
  }
}

const POSITION_MESSAGE = /^([0-9a-f]{16}) (\d{1,10}) (\d{1,9})$/

/** Decodes a message; undefined when it is not valid. */
function decodePositionMessage(
  text: string,
): { readonly origin: string; readonly position: ChainPosition } | undefined {
  const found = text.length > MAX_CHARS ? null : POSITION_MESSAGE.exec(text)
  if (found === null) return undefined
  const [, origin, height, index] = found
  return { origin: origin!, position: { height: Number(height), index: Number(index) } }
}
