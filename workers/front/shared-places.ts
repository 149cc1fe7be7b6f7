/**
 * `--behind` with `--share-transactions`: replicas tell each other, over a channel of Redis, which flashblocks they have, so that all of them show
 * one at the same time, whichever had it first. It is a hint: what is not told is shown by what this node has itself.
 */
import { randomBytes } from 'node:crypto'
import type { ShowPlace } from '../../engine/views/showing.ts'
import { connectRedis, sayOnce } from '../../rpc/limiter/redis-client.ts'
import type { Report } from '../observe/reporter.ts'

export interface SharedPlaces {
  /** This node has it. */
  had(place: ShowPlace): void
  stats(): Readonly<Record<string, number>>
  close(): void
}

export type SharedPlacesOptions = {
  readonly url: string
  readonly chainId: bigint
  readonly onHeard: (place: ShowPlace) => void
  readonly report: Report
}

/** That Redis has not confirmed: a newer place says more than those that wait. */
const MOST_OPEN = 64
/** Of a message: what is longer is none of ours. */
const MOST_CHARS = 64

export function sharePlaces({ url, chainId, onHeard, report }: SharedPlacesOptions): SharedPlaces {
  const channel = `flashnode:places:${chainId}`
  /** Who hears its own words passes over them. */
  const own = randomBytes(8).toString('hex')
  const counts = { told: 0, untold: 0, heard: 0 }
  let open = 0
  const once = sayOnce((reason) => report('places_not_shared', { reason }))
  const connect = (onReady: () => void) => connectRedis(url, { onAway: once.away, onReady })
  const writer = connect(once.back)
  const listener = connect(() => {
    listener.subscribe(channel).catch((error: Error) => once.away(error.message))
  })
  listener.on('message', (_, text: string) => {
    const heard = decodePlace(text)
    if (heard === undefined || heard.origin === own) return
    counts.heard++
    onHeard(heard.place)
  })
  return {
    had({ height, index }) {
      if (open >= MOST_OPEN) {
        counts.untold++
        return
      }
      open++
      writer
        .publish(channel, `${own} ${height} ${index}`)
        .then(
          () => counts.told++,
          (error: Error) => {
            counts.untold++
            once.away(error.message)
          },
        )
        .finally(() => open--)
    },
    stats: () => ({
      placesTold: counts.told,
      placesUntold: counts.untold,
      placesHeard: counts.heard,
    }),
    close() {
      once.end()
      for (const client of [writer, listener]) client.disconnect()
    },
  }
}

const PLACE = /^([0-9a-f]{16}) (\d{1,10}) (\d{1,9})$/

/** undefined: it is none. */
function decodePlace(
  text: string,
): { readonly origin: string; readonly place: ShowPlace } | undefined {
  const found = text.length > MOST_CHARS ? null : PLACE.exec(text)
  if (found === null) return undefined
  const [, origin, height, index] = found
  return { origin: origin!, place: { height: Number(height), index: Number(index) } }
}
