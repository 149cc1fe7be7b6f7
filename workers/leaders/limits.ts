/** The bounds of leaders whose enriched feeds are applied, in one place. */
import type { ConnectionLimits } from '../feeds/connection.ts'
import { FEED_LIMITS, type FeedLimits } from '../feeds/limits.ts'

/** What an operator may set of them: each is a flag of `follow`, `--<name>`. */
export const APPLY_BOUNDS = {
  applyMessageBytes: {
    ...{ value: 64 << 20, unit: 'bytes' },
    text: 'of one message of a leader, uncompressed; a snapshot has as many blocks as stand above canonical',
  },
  applyHeldDiffs: {
    ...{ value: 256, unit: 'items' },
    text: 'flashblocks of which one leader has told and our own feeds have not',
  },
  applyHeldBytes: { value: 64 << 20, unit: 'bytes', text: 'of what one leader has told of them' },
} as const satisfies Readonly<
  Record<string, { readonly value: number; readonly unit: string; readonly text: string }>
>
export type ApplyBounds = { readonly [K in keyof typeof APPLY_BOUNDS]: number }

/** Leaders of one node. */
export const MOST_LEADERS = 8

/**
 * A leader is connected to, watched and left as a feed is; it sends one message for each record of its own. It is one of ours: it is looked for
 * more often than somebody else's feed.
 */
export const LEADER_LIMITS: ConnectionLimits &
  Pick<FeedLimits, 'sampleMs' | 'beatMs' | 'leastReplaceMs' | 'mostReplaceMs'> = {
  ...FEED_LIMITS,
  mostRetryMs: 2_000,
  connects: { perSecond: 0.5, burst: 10 },
}
