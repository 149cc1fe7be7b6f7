/** Flags of `flashnode follow` and `flashnode record`. */
import { PUBLISHED } from '../../../engine/chainspec/published.ts'
import { UPSTREAM_BOUNDS, type UpstreamLimits } from '../../../engine/sources/upstream/limits.ts'
import type { ConfigOf, Given } from '../../config/command.ts'
import { FORK_TIME } from '../../config/fork-time.ts'
import {
  choice,
  flag,
  integer,
  list,
  needed,
  type Option,
  option,
  optional,
  orWord,
  url,
} from '../../config/option.ts'
import { JSON_OUT } from '../../config/options.ts'
import { FLASHBLOCK_LAG, type NodeDefaults, SERVING } from '../../config/serving-options.ts'
import { FEED_BOUNDS } from '../../feed-client/limits.ts'

type Bounds = Readonly<
  Record<string, { readonly value: number; readonly unit: string; readonly text: string }>
>

/** Makes a flag `--<name>` for each bound. */
const flagsOf = <B extends Bounds>(bounds: B) =>
  Object.fromEntries(
    Object.entries(bounds).map(([name, { value, unit, text }]) => [
      name,
      option(unit.toUpperCase(), integer(1, Number.MAX_SAFE_INTEGER), { fallback: value, text }),
    ]),
  ) as { readonly [K in keyof B]: Option<number> }

export const upstreamLimitsOf = (given: UpstreamLimits): UpstreamLimits =>
  Object.fromEntries(
    Object.keys(UPSTREAM_BOUNDS).map((name) => [name, given[name as keyof UpstreamLimits]]),
  ) as UpstreamLimits

export const FLAGS = {
  ...SERVING,
  chain: { ...SERVING.chain, defaultText: 'that of the directory; xlayer for an empty one' },
  upstream: option('URL,…', list(url('http', 'https', 'ws', 'wss')), {
    fallback: [],
    text: 'nodes that decide which block is canonical, over HTTP or WebSocket; if two disagree, the first one counts',
    defaultText: 'the public ones of the chain',
  }),
  feed: option('URL,…|none', orWord('none', list(url('ws', 'wss'))), {
    fallback: [],
    text: 'flashblocks feeds, all read at the same time; pending trusts each of them',
    defaultText: 'the public ones of the chain',
  }),
  forkTime: FORK_TIME,
  sequencer: option('URL', optional(url('http', 'https')), {
    fallback: undefined,
    text: 'node that gets the transactions of clients',
    defaultText: 'the first --upstream',
  }),
  legacyRpc: option('URL', optional(url('http', 'https')), {
    fallback: undefined,
    text: 'node of the older chain that this chain continues; it answers for blocks below the first one',
  }),
  state: option('whole|lazy', optional(choice('whole', 'lazy')), {
    fallback: undefined,
    text: 'whole: all of the state is in the directory; lazy: state is fetched from upstreams when execution needs it',
    defaultText: 'that of the directory; lazy for an empty one',
  }),
  shareTransactions: option('redis://…', optional(url('rediss', 'redis')), {
    fallback: undefined,
    text: 'Redis in which replicas share the transactions that clients send to them',
  }),
  flashblockLag: FLASHBLOCK_LAG,
  cadenceMs: option('MS', integer(20, 10_000), {
    fallback: 200,
    text: 'time between two flashblocks of the feeds, for --flashblock-lag',
  }),
  trustUpstream: flag(
    'accept lazy state without proofs if the upstreams have none; wrong state of an upstream is then not noticed',
  ),
  lazyCache: option('MB', integer(16, 1_048_576), {
    fallback: 4_096,
    text: 'size of fetched state on the disk; values that blocks have changed do not count',
  }),
  ...flagsOf(UPSTREAM_BOUNDS),
  ...flagsOf(FEED_BOUNDS),
}

/** Flags of `flashnode record` that `follow` lacks or describes otherwise. */
export const RECORD_FLAGS = {
  datadir: { ...SERVING.datadir, defaultText: 'a temporary one, removed on exit' },
  state: {
    ...FLAGS.state,
    text: `${FLAGS.state.text}; a lazy node with many requests publishes flashblocks late while it records`,
  },
  out: needed('FILE', 'file of the recording; it must not exist yet'),
  seconds: option('N', integer(1, 86_400), { fallback: 600, text: 'duration of the recording' }),
  megabytes: option('MB', integer(1, 65_536), {
    fallback: 256,
    text: 'maximum size of the recording',
  }),
  requests: option('N|off', orWord('off', integer(1, 100_000)), {
    fallback: 200,
    text: "clients' requests per second in the recording, with hashes of their answers, without their addresses",
  }),
  requestBytes: option('BYTES', integer(1_024, 1_073_741_824), {
    fallback: 262_144,
    text: 'maximum bytes of requests in a second of the recording',
  }),
  json: JSON_OUT,
}

export type FollowDefaults = NodeDefaults & {
  readonly upstream: readonly string[]
  readonly feed: readonly string[]
  /** Transactions go to the first upstream if this is undefined. */
  readonly sequencer: string | undefined
}
export type FollowConfig = ConfigOf<typeof FLAGS, FollowDefaults>

/** Sources that are published for the chain replace those that no flag names. */
export function sourcesOf({ chain = 'xlayer', upstream, feed }: Given<typeof FLAGS>) {
  const published = PUBLISHED.get(chain)
  const upstreams = upstream.length > 0 ? upstream : (published?.upstreams ?? [])
  // A private upstream seldom comes with a feed, so the published feeds are added.
  const feeds = feed === 'none' ? [] : feed.length > 0 ? feed : (published?.feeds ?? [])
  return { upstream: upstreams, feed: feeds }
}
