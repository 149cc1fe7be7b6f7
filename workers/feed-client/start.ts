/** Starts the threads of the feeds, one for each. */
import type { MessagePort } from 'node:worker_threads'
import { messageIdText } from '../../engine/flashblocks/identity.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import { createInbox } from '../thread/inbox.ts'
import { superviseThread } from '../thread/supervise.ts'
import { startThread, type Thread } from '../thread/thread.ts'
import type { FeedData } from './feed.ts'
import { FEED_LIMITS, type FeedLimits, MAX_FEEDS } from './limits.ts'
import type { FromFeed, ToFeed } from './messages.ts'

export type FeedsOptions = {
  readonly urls: readonly string[]
  /**
   * Ports to the writer, one for each URL, which are transferred: they take `FeedToWriter` and give
   * `WriterToFeed`.
   */
  readonly writerPorts: readonly MessagePort[]
  readonly blockTimeMs: number
  readonly limits?: Partial<FeedLimits>
  /** Database for prefetching state ahead of the writer; if omitted, nothing is prefetched. */
  readonly database?: SharedDatabase
  /** Opens another port to the writer for a replaced thread. */
  readonly newPort: () => MessagePort
  /** Receives a thread's id when the thread has ended. */
  readonly onEnded: (thread: number) => void
}

export interface Feeds {
  /** Names for the log: hosts without user, password, path and query, which may contain a key. */
  readonly names: readonly string[]
  /** Delivers messages of the threads, earlier ones first; called once. */
  listen(receiver: (feed: number, message: FromFeed) => void): void
  canonicalMoved(): void
  stop(withinMs?: number): Promise<void>
}

const STOP_MS = 3_000

/** @throws {Error} naming the wrong URL in one line */
export function startFeeds(options: FeedsOptions): Feeds {
  const { urls, writerPorts } = options
  const names = urls.map(feedName)
  if (urls.length > MAX_FEEDS) throw new Error(`${urls.length} feeds: at most ${MAX_FEEDS}`)
  if (urls.length !== writerPorts.length) throw new Error('each feed needs a port to the writer')
  const inbox = createInbox<readonly [feed: number, message: FromFeed]>()
  const threads = urls.map((url, feed) => superviseFeed(options, { url, feed }, inbox.push))
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

type OnFeedMessage = (said: readonly [feed: number, message: FromFeed]) => void
type Which = { readonly url: string; readonly feed: number }

/**
 * Runs a feed's thread and replaces it after a failure. Meanwhile other feeds, or canonical blocks
 * alone, drive the node.
 */
function superviseFeed(options: FeedsOptions, which: Which, onMessage: OnFeedMessage) {
  let port = options.writerPorts[which.feed]
  let since: FeedMessageId | undefined
  const thread = superviseThread<ToFeed>({ ...FEED_LIMITS, ...options.limits }, (onFailed) => {
    let newest: FeedMessageId | undefined
    const writer = port ?? options.newPort()
    port = undefined
    return startFeed(options, { ...which, writer, since }, ([feed, message]) => {
      onMessage([feed, message])
      if (message.type === 'status') newest = message.since
      if (message.type !== 'failed') return
      /*
       * Without progress since the last failure the position is dropped, because the next frame may
       * cause the failure.
       */
      since = newest !== undefined && isSameMessage(newest, since) ? undefined : newest
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
  onMessage: OnFeedMessage,
): Thread<ToFeed> {
  const { feed, writer } = which
  const data: FeedData = {
    ...which,
    blockTimeMs,
    database,
    limits: { ...FEED_LIMITS, ...limits },
  }
  return startThread<ToFeed, FromFeed>({
    name: `feed_${feed}`,
    file: new URL('./feed.ts', import.meta.url),
    data,
    transfer: [writer],
    onMessage: (message) => onMessage([feed, message]),
    onLost: (message) => onMessage([feed, { type: 'failed', message }]),
    onEnded,
  })
}

const isSameMessage = (a: FeedMessageId, b: FeedMessageId | undefined): boolean =>
  b !== undefined && messageIdText(a) === messageIdText(b)

/** Returns the host of a feed's URL. @throws {Error} saying what is wrong */
export function feedName(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['ws:', 'wss:'].includes(url.protocol) || url.hash !== '')
    throw new Error(
      `feed: expected ws:// or wss:// and no fragment, got ${JSON.stringify(text.slice(0, 80))}`,
    )
  return url.host
}
