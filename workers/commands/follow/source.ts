/** Starts the threads of a node that follows: one for all upstreams, one for each feed. They wait to be told to begin. */
import { WRITER_LIMITS } from '../../../engine/sources/writer/types.ts'
import { feedLimitsOf } from '../../feeds/limits.ts'
import { startFeeds } from '../../feeds/start.ts'
import type { FollowerData } from '../../follower/follower.ts'
import type { Source, SourceLink } from '../../node/role.ts'
import type { FromFollower, ToFollower } from '../../thread/follower-messages.ts'
import { createInbox } from '../../thread/inbox.ts'
import { startThread } from '../../thread/thread.ts'
import type { LazyBegin } from './begin.ts'
import { type FollowConfig, upstreamLimitsOf } from './flags.ts'

/** Kept for its end, whatever the parts before it take. */
const STOP_MS = 300

/** @param how `lazy`: how state is fetched; undefined: it is whole */
export function startFollowing(
  config: FollowConfig,
  link: SourceLink,
  { lazy, isRecorded }: { readonly lazy: LazyBegin | undefined; readonly isRecorded: boolean },
): Source {
  const { context, data, keeper, writer, onLost, onEnded } = link
  const inbox = createInbox<FromFollower>()
  const followerData: FollowerData = {
    ...{ ...data.shared, thread: link.row, keeper, writer },
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
    transfer: [keeper, writer],
    onMessage: inbox.push,
    ...{ onLost, onEnded },
  })
  const stop = (withinMs: number) => thread.stop({ type: 'stop' }, withinMs)
  context.lifecycle.onStop('the follower', stop, { leastMs: STOP_MS })
  const feeds = startFeeds({
    urls: config.feed,
    writerPorts: link.feeds,
    newPort: link.newFeed,
    limits: feedLimitsOf(config),
    database: data.shared.database,
    blockTimeMs: data.chain.blockTime * 1_000,
    onEnded,
  })
  context.lifecycle.onStop('the feeds', feeds.stop, { leastMs: STOP_MS })
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
