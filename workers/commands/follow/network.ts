/** The network that is followed, as the main thread has it: what its threads say, and what is forwarded to it. */
import { haltDoubt } from '../../../engine/sources/upstream/doubts.ts'
import { connectFeeds } from '../../feeds/connect.ts'
import type { Feeds } from '../../feeds/start.ts'
import type { ConnectedSource, SourceParts } from '../../node/role.ts'
import type { NodeContext } from '../../process/context.ts'
import type { FromFollower, ToFollower } from '../../thread/follower-messages.ts'
import type { Inbox } from '../../thread/inbox.ts'
import type { Thread } from '../../thread/thread.ts'
import { banner } from './banner.ts'
import { type CatchingUp, createCatchUp } from './catch-up.ts'
import type { FollowConfig } from './flags.ts'
import { createForwarding, type Forwarding } from './forwarding.ts'

export type Network = SourceParts & {
  readonly thread: Thread<ToFollower>
  readonly inbox: Inbox<FromFollower>
  readonly feeds: Feeds
  readonly config: FollowConfig
  /** State is fetched as it is read. */
  readonly isLazy: boolean
  /** No upstream answered before this node goes on: nothing is waited for. */
  readonly startsAlone: boolean
  readonly context: Pick<NodeContext, 'log' | 'reporter' | 'fail'>
}

export function connectNetwork(network: Network): ConnectedSource {
  const { thread, feeds, config, metrics, context } = network
  const { log, reporter } = context
  const forwarding = createForwarding((message) => thread.post(message))
  const catchUp = createCatchUp(log, network.startsAlone ? 0 : undefined)
  const connected = connectFeeds(feeds, {
    ...{ log, report: reporter.report, metrics },
  })
  return {
    methods: [],
    async start() {
      network.inbox.open((message) => onFollower(message, network, { forwarding, catchUp }))
      thread.post({ type: 'start' })
    },
    caughtUp: catchUp.done,
    banner: (chain) => banner(chain, config),
    forward: forwarding.forward,
    ...(network.isLazy ? { lazy: forwarding.lazy } : {}),
    syncing: catchUp.syncing,
    state() {
      const status = catchUp.status()
      return {
        degraded: [...connected.doubts(), ...(status?.degraded ?? []), ...catchUp.silence()],
        feedSilentMs: connected.silentMs(),
        unready: status?.halted === undefined ? catchUp.behind() : [status.halted],
        details: {
          feeds: connected.statuses(),
          upstreams: status?.upstreams ?? [],
        },
      }
    },
    canonicalMoved: feeds.canonicalMoved,
  }
}

function onFollower(
  message: FromFollower,
  { metrics, failing, health, context }: Network,
  { forwarding, catchUp }: { readonly forwarding: Forwarding; readonly catchUp: CatchingUp },
): void {
  const { log, reporter } = context
  switch (message.type) {
    case 'ready':
      return
    case 'status':
      catchUp.update(message.status)
      return
    case 'fetched':
    case 'forwarded':
      forwarding.answer(message)
      return
    case 'count':
      metrics.count(message.what, message.by)
      return
    case 'warning':
      reporter.report('upstream_doubt', { reason: message.message })
      return
    case 'halted':
      health.halted(haltDoubt(message))
      reporter.report('chain_halted', { reason: message.message })
      return
    case 'resumed':
      log.info('the chain goes on')
      return
    case 'failed':
      // Its start is refused: nobody was told that it is ready.
      if (catchUp.isDone) failing(message.message)
      else context.fail(message.message)
      catchUp.failed()
      return
    case 'stopped':
      return
  }
}
