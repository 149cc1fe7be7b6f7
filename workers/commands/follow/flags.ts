/** What a node that follows a network can be told. */
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
import { BEHIND, type NodeDefaults, SERVING } from '../../config/serving.ts'
import { FEED_BOUNDS } from '../../feeds/limits.ts'

type Bounds = Readonly<
  Record<string, { readonly value: number; readonly unit: string; readonly text: string }>
>

/** `--<name>` of each bound. */
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
  upstream: option('URL,…', list(url('http', 'https', 'ws', 'wss')), {
    fallback: [],
    text: 'nodes that say which block is canonical, over HTTP or WebSocket; the first named is believed where two disagree',
    shown: 'what the chain publishes',
  }),
  feed: option('URL,…|none', orWord('none', list(url('ws', 'wss'))), {
    fallback: [],
    text: 'flashblocks feeds, all read at once: each is trusted for pending',
    shown: 'what the chain publishes',
  }),
  forkTime: FORK_TIME,
  sequencer: option('URL', optional(url('http', 'https')), {
    fallback: undefined,
    text: 'where transactions are sent',
    shown: 'the first --upstream',
  }),
  legacyRpc: option('URL', optional(url('http', 'https')), {
    fallback: undefined,
    text: 'node of the chain before this one: answers for blocks below the first',
  }),
  state: option('whole|lazy', optional(choice('whole', 'lazy')), {
    fallback: undefined,
    text: 'all of the state, or what execution touches, fetched from the upstream',
    shown: 'as the directory; an empty one: lazy',
  }),
  shareTransactions: option('redis://…', optional(url('rediss', 'redis')), {
    fallback: undefined,
    text: 'a stream of Redis by which replicas tell each other what was sent to them',
  }),
  behind: BEHIND,
  cadenceMs: option('MS', integer(20, 10_000), {
    fallback: 200,
    text: 'between two flashblocks of the feeds, for --behind',
  }),
  trustUpstream: flag(
    'lazy state without proofs, where the upstream gives none: as right as it is',
  ),
  lazyCache: option('MB', integer(16, 1_048_576), {
    fallback: 4_096,
    text: 'lazy state on the disk that was fetched and never written here',
  }),
  ...flagsOf(UPSTREAM_BOUNDS),
  ...flagsOf(FEED_BOUNDS),
}

/** Beside those, what is recorded, and how much of it. */
export const RECORD_FLAGS = {
  datadir: { ...SERVING.datadir, shown: 'a temporary one, removed on exit' },
  state: {
    ...FLAGS.state,
    text: `${FLAGS.state.text}; a lazy node that is recorded and asked much shows flashblocks late`,
  },
  out: needed('FILE', 'the record: a file that is not there yet'),
  seconds: option('N', integer(1, 86_400), { fallback: 600, text: 'how long it is recorded' }),
  megabytes: option('MB', integer(1, 65_536), { fallback: 256, text: 'of the record at most' }),
  requests: option('N|off', orWord('off', integer(1, 100_000)), {
    fallback: 200,
    text: "of clients' requests so many a second are in the record, with their answers' hashes; who they are is not",
  }),
  requestBytes: option('BYTES', integer(1_024, 1_073_741_824), {
    fallback: 262_144,
    text: 'of requests in a second of the record at most',
  }),
  json: JSON_OUT,
}

export type FollowDefaults = NodeDefaults & {
  readonly upstream: readonly string[]
  /** Empty: none. */
  readonly feed: readonly string[]
  /** undefined: to the upstream. */
  readonly sequencer: string | undefined
}
export type FollowConfig = ConfigOf<typeof FLAGS, FollowDefaults>

/** What the chain publishes, where nothing else is said. */
export function sourcesOf({ chain = 'xlayer', upstream, feed }: Given<typeof FLAGS>) {
  const published = PUBLISHED.get(chain)
  const upstreams = upstream.length > 0 ? upstream : (published?.upstreams ?? [])
  // Who names an upstream of a chain has one of its own, and perhaps no feed; but a public feed is one feed more.
  const feeds = feed === 'none' ? [] : feed.length > 0 ? feed : (published?.feeds ?? [])
  return { upstream: upstreams, feed: feeds }
}
