/** Turns messages of the feeds' threads into log lines, metrics and suspicions. */
import type { Suspicion } from '../../engine/sources/suspicion.ts'
import { type Log, loggable } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Report } from '../observe/reporter.ts'
import type { FeedStatus, FromFeed } from './messages.ts'
import type { Feeds } from './start.ts'

export type FeedParts = {
  readonly log: Pick<Log, 'info'>
  readonly report: Report
  readonly metrics: Pick<Metrics, 'feed'>
}
/** `name` is the host of the feed's URL. */
export type NamedStatus = FeedStatus & { readonly name: string }
export interface ConnectedFeeds {
  /** Statuses of all feeds that have reported one. */
  readonly statuses: () => readonly NamedStatus[]
  /** Milliseconds since the newest frame of any feed; undefined if no feed has sent a frame. */
  readonly silentMs: () => number | undefined
  /** Suspicions about feeds that are not connected; they make the node degraded. */
  readonly suspicions: () => readonly Suspicion[]
}

export function connectFeeds(feeds: Feeds, parts: FeedParts): ConnectedFeeds {
  const statuses = new Map<number, FeedStatus>()
  /** Feeds whose thread has ended and is about to be replaced. */
  const lost = new Set<number>()
  feeds.listen((feed, message) => {
    if (message.type === 'status') statuses.set(feed, message.status)
    else if (message.type === 'failed') lost.add(feed)
    else if (message.type === 'ready') lost.delete(feed)
    onFeed(feed, `feed ${feed} (${feeds.names[feed]})`, message, parts)
  })
  const isConnected = (feed: number) => !lost.has(feed) && statuses.get(feed)?.isConnected === true
  return {
    statuses: () =>
      feeds.names.flatMap((name, feed) => {
        const status = statuses.get(feed)
        return status ? [{ ...status, name, isConnected: isConnected(feed) }] : []
      }),
    silentMs() {
      const all = [...statuses].flatMap(([feed, { silentMs }]) =>
        lost.has(feed) ? [] : [silentMs],
      )
      return all.length === 0 ? undefined : Math.min(...all)
    },
    suspicions: () =>
      feeds.names.flatMap((name, feed) => {
        if (isConnected(feed)) return []
        const what = lost.has(feed) ? 'about to have another thread' : 'not connected'
        return [{ text: `feed ${feed} (${name}) is ${what}`, outside: `feed ${feed} is ${what}` }]
      }),
  }
}

function onFeed(feed: number, name: string, message: FromFeed, parts: FeedParts): void {
  const { log, report, metrics } = parts
  switch (message.type) {
    case 'ready':
    case 'stopped':
      return
    case 'connected':
      log.info({ feed }, `${name}: connected`)
      return
    case 'count':
      metrics.feed.count(feed, message.what, message.by)
      return
    case 'refused':
      metrics.feed.refused(feed, message.field, message.by)
      return
    case 'status': {
      const { isConnected, silentMs, heldFrames, heldBytes } = message.status
      metrics.feed.values(feed, {
        connected: Number(isConnected),
        silent_seconds: silentMs / 1_000,
        held_frames: heldFrames,
        held_bytes: heldBytes,
      })
      return
    }
    case 'warning':
      report('feed_doubt', { feed, reason: `${name}: ${loggable(message.message, LINE)}` })
      return
    case 'failed':
      report('feed_failed', { feed, reason: `${name}: ${message.message}` })
  }
}

/** Maximum length of a log line that quotes the peer. */
const LINE = 200
