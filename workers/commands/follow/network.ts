/**
 * Main thread's side of the followed network: messages of its threads, and calls that are forwarded
 * to it.
 */

import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { haltSuspicion } from '../../../engine/sources/upstream/tracker-state.ts'
import { version } from '../../config/config.ts'
import { connectFeeds } from '../../feed-client/connect.ts'
import type { Feeds } from '../../feed-client/start.ts'
import type { ConnectedSource, SourceParts } from '../../node/role.ts'
import type { NodeContext } from '../../process/context.ts'
import type { FromFollower, ToFollower } from '../../thread/follower-messages.ts'
import type { Inbox } from '../../thread/inbox.ts'
import type { Thread } from '../../thread/thread.ts'
import { type CatchingUp, createCatchUp } from './catch-up.ts'
import type { FollowConfig } from './flags.ts'
import { createForwarding, type Forwarding } from './forwarding.ts'

export type Network = SourceParts & {
  readonly thread: Thread<ToFollower>
  readonly inbox: Inbox<FromFollower>
  readonly feeds: Feeds
  readonly config: FollowConfig
  readonly isLazy: boolean
  /** No upstream responded at the start, so the node starts without waiting for one. */
  readonly startsAlone: boolean
  readonly context: Pick<NodeContext, 'log' | 'reporter' | 'fail'>
}

export function connectNetwork(network: Network): ConnectedSource {
  const { thread, feeds, config, metrics, context } = network
  const { log, reporter } = context
  const forwarding = createForwarding((message) => thread.post(message))
  const catchUp = createCatchUp(log, network.startsAlone ? 0 : undefined)
  const connected = connectFeeds(feeds, {
    log,
    report: reporter.report,
    metrics,
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
        degraded: [...connected.suspicions(), ...(status?.degraded ?? []), ...catchUp.silence()],
        feedSilentMs: connected.silentMs(),
        unready: status?.halted === undefined ? catchUp.lagging() : [status.halted],
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
      forwarding.respond(message)
      return
    case 'count':
      metrics.count(message.what, message.by)
      return
    case 'warning':
      reporter.report('upstream_doubt', { reason: message.message })
      return
    case 'halted':
      health.halted(haltSuspicion(message))
      reporter.report('chain_halted', { reason: message.message })
      return
    case 'resumed':
      log.info('the canonical chain advances again')
      return
    case 'failed':
      /*
       * An error before the end of the catch-up refuses the start, because the node was never
       * ready.
       */
      if (catchUp.isDone) failing(message.message)
      else context.fail(message.message)
      catchUp.failed()
      return
    case 'stopped':
      return
  }
}

/** Only the host is printed, because a path or a query may contain a key. */
const hostOf = (url: string): string => new URL(url).host

/** Text for the start. */
function banner(
  { name, chainId }: ChainSpec,
  { upstream, feed }: Pick<FollowConfig, 'upstream' | 'feed'>,
): string {
  const feeds = feed.length === 0 ? 'no feed' : `feeds ${feed.map(hostOf).join(', ')}`
  return `flashnode ${version()}: follows ${name} (${chainId}), upstreams ${upstream.map(hostOf).join(', ')}, ${feeds}\n`
}
