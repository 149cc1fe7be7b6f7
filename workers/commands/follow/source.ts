/**
 * Starts the threads of a following node: one for all upstreams, one for each feed. They wait for
 * `start`.
 */
import { WRITER_LIMITS } from '../../../engine/sources/writer/types.ts'
import { feedLimitsOf } from '../../feed-client/limits.ts'
import { startFeeds } from '../../feed-client/start.ts'
import type { FollowerData } from '../../follower/follower.ts'
import type { Source, SourceLink } from '../../node/role.ts'
import type { FromFollower, ToFollower } from '../../thread/follower-messages.ts'
import { createInbox } from '../../thread/inbox.ts'
import { startThread } from '../../thread/thread.ts'
import { type FollowConfig, upstreamLimitsOf } from './flags.ts'
import type { LazyFollow } from './prepare.ts'

/** Time that is reserved for stopping these threads, however long earlier parts take. */
const STOP_MS = 300

/** @param lazy how state is fetched; undefined if the directory has all state */
export function startFollowing(
  config: FollowConfig,
  link: SourceLink,
  { lazy, isRecorded }: { readonly lazy: LazyFollow | undefined; readonly isRecorded: boolean },
): Source {
  const { context, data, persistence, writer, onLost, onEnded } = link
  const inbox = createInbox<FromFollower>()
  const followerData: FollowerData = {
    ...data.shared,
    thread: link.row,
    persistence,
    writer,
    upstreams: config.upstream,
    sequencer: config.sequencer,
    undoBlocks: WRITER_LIMITS.undoBlocks,
    limits: upstreamLimitsOf(config),
    lazy: lazy && { ...lazy, rate: config.upstreamRate },
    isRecorded,
  }
  const thread = startThread<ToFollower, FromFollower>({
    name: 'follower',
    file: new URL('../../follower/follower.ts', import.meta.url),
    data: followerData,
    transfer: [persistence, writer],
    onMessage: inbox.push,
    onLost,
    onEnded,
  })
  const stop = (withinMs: number) => thread.stop({ type: 'stop' }, withinMs)
  context.lifecycle.onStop('the follower', stop, { minMs: STOP_MS })
  const feeds = startFeeds({
    urls: config.feed,
    writerPorts: link.feeds,
    newPort: link.newFeed,
    limits: feedLimitsOf(config),
    database: data.shared.database,
    blockTimeMs: data.chain.blockTime * 1_000,
    onEnded,
  })
  context.lifecycle.onStop('the feeds', feeds.stop, { minMs: STOP_MS })
  return {
    async connect(parts) {
      const { connectNetwork } = await import('./network.ts')
      return connectNetwork({
        ...parts,
        thread,
        inbox,
        feeds,
        context,
        config,
        isLazy: lazy !== undefined,
        startsAlone: lazy?.probed.length === 0,
      })
    },
  }
}
