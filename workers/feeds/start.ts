/** Starts the threads of the feeds, one for each. */
import type { MessagePort } from 'node:worker_threads'
import { placeText } from '../../engine/flashblocks/places.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import { createInbox } from '../thread/inbox.ts'
import { keepThread } from '../thread/kept.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { FeedData } from './feed.ts'
import { FEED_LIMITS, type FeedLimits, MOST_FEEDS } from './limits.ts'
import type { FromFeed, ToFeed } from './messages.ts'

export type FeedsOptions = {
  /** ws:// or wss:// */
  readonly urls: readonly string[]
  /** To the writer, one for each URL: takes `FeedToWriter`, gives `WriterToFeed`. They are handed over. */
  readonly writerPorts: readonly MessagePort[]
  readonly blockTimeMs: number
  readonly limits?: Partial<FeedLimits>
  /** The threads read state ahead of the writer from this; left out: they read nothing. */
  readonly database?: SharedDatabase
  /** Another port to the writer, for a thread in the place of one that has failed. */
  readonly newPort: () => MessagePort
  /** A thread's id, once it has really ended. */
  readonly onEnded: (thread: number) => void
}

export interface Feeds {
  /** For the log: without user, password, path and query, which may be a key. */
  readonly names: readonly string[]
  /** What the threads say from the start on, once; what was said before comes first. */
  listen(receiver: (feed: number, message: FromFeed) => void): void
  /** The canonical head has moved. */
  canonicalMoved(): void
  /** Resolves when all threads have ended. */
  stop(withinMs?: number): Promise<void>
}

const STOP_MS = 3_000

/** @throws with one line that says which URL is wrong */
export function startFeeds(options: FeedsOptions): Feeds {
  const { urls, writerPorts } = options
  const names = urls.map(feedName)
  if (urls.length > MOST_FEEDS) throw new Error(`${urls.length} feeds: at most ${MOST_FEEDS}`)
  if (urls.length !== writerPorts.length) throw new Error('each feed needs a port to the writer')
  const inbox = createInbox<readonly [feed: number, message: FromFeed]>()
  const threads = urls.map((url, feed) => keepFeed(options, { url, feed }, inbox.push))
  return {
    names,
    listen: (receiver) => inbox.open((said) => receiver(...said)),
    canonicalMoved() {
      const atMs = performance.now()
      for (const thread of threads) thread.canonicalMoved(atMs)
    },
    async stop(withinMs = STOP_MS) {
      await Promise.all(threads.map((thread) => thread.stop(withinMs)))
    },
  }
}

type Hear = (said: readonly [feed: number, message: FromFeed]) => void
type Which = { readonly url: string; readonly feed: number }

/** Its thread, and whichever takes its place: others may bring the frames meanwhile, and without any the canonical blocks come. */
function keepFeed(options: FeedsOptions, which: Which, hear: Hear) {
  let port = options.writerPorts[which.feed]
  let since: FeedPlace | undefined
  const thread = keepThread<ToFeed>({ ...FEED_LIMITS, ...options.limits }, (onFailed) => {
    let newest: FeedPlace | undefined
    const writer = port ?? options.newPort()
    port = undefined
    return startFeed(options, { ...which, writer, since }, ([feed, message]) => {
      hear([feed, message])
      if (message.type === 'status') newest = message.since
      if (message.type !== 'failed') return
      // Where it came no further, what comes next may be what it fails of.
      since = newest !== undefined && isSamePlace(newest, since) ? undefined : newest
      onFailed()
    })
  })
  return {
    canonicalMoved: (atMs: number) => thread.post({ type: 'canonical', atMs }),
    stop: (withinMs: number) => thread.stop({ type: 'stop' }, withinMs),
  }
}

function startFeed(
  { blockTimeMs, limits, database, onEnded }: FeedsOptions,
  which: Which & Pick<FeedData, 'writer' | 'since'>,
  hear: Hear,
): Thread<ToFeed> {
  const { feed, writer } = which
  const data: FeedData = {
    ...{ ...which, blockTimeMs, database },
    limits: { ...FEED_LIMITS, ...limits },
  }
  return startThread<ToFeed, FromFeed>({
    ...{ name: `feed_${feed}`, file: new URL('./feed.ts', import.meta.url), data },
    transfer: [writer],
    onMessage: (message) => hear([feed, message]),
    onLost: (message) => hear([feed, { type: 'failed', message }]),
    onEnded,
  })
}

const isSamePlace = (a: FeedPlace, b: FeedPlace | undefined): boolean =>
  b !== undefined && placeText(a) === placeText(b)

/** Host of a feed's URL. @throws with what is wrong */
export function feedName(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['ws:', 'wss:'].includes(url.protocol) || url.hash !== '')
    throw new Error(
      `feed: expected ws:// or wss:// and no fragment, got ${JSON.stringify(text.slice(0, 80))}`,
    )
  return url.host
}
