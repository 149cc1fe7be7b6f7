/** Limits of all requests to upstreams. Each is a flag of `follow`, `--<name>`. */
export type UpstreamLimit = {
  readonly value: number
  readonly unit: 'bytes' | 'ms' | 'items' | 'blocks'
  readonly text: string
}
const limit = (value: number, unit: UpstreamLimit['unit'], text: string): UpstreamLimit => ({
  value,
  unit,
  text,
})

export const UPSTREAM_BOUNDS = {
  upstreamCallMs: limit(8_000, 'ms', 'a call of an upstream, its wait for a place included'),
  upstreamAnswerBytes: limit(32 * 1024 * 1024, 'bytes', 'one answer of an upstream'),
  upstreamRate: limit(
    90,
    'items',
    'calls a second of one upstream; with lazy state, of all together: blocks, state and what is forwarded',
  ),
  upstreamInFlight: limit(16, 'items', 'unanswered messages at one upstream'),
  upstreamWaiting: limit(2_048, 'items', 'messages that wait for a place at one upstream'),
  upstreamBatch: limit(100, 'items', 'calls of one batch'),
  upstreamRestMs: limit(60_000, 'ms', 'rest of an upstream that lags, errs or contradicts'),
  upstreamLagBlocks: limit(8, 'blocks', 'behind the others at which an upstream lags'),
  catchUpRange: limit(16, 'blocks', 'asked for in one message while catching up'),
  catchUpRanges: limit(4, 'items', 'such messages at a time'),
  catchUpBlocks: limit(128, 'blocks', 'fetched and not yet canonical here'),
  catchUpBytes: limit(64 * 1024 * 1024, 'bytes', 'of transactions in those blocks'),
  forwardMs: limit(5_000, 'ms', 'for the answer to a call that was forwarded'),
  forwardsPerClient: limit(64, 'items', 'forwarded calls at a time, for one address'),
  forwardsTotal: limit(1_000, 'items', 'forwarded calls at a time, for all'),
} as const satisfies Record<string, UpstreamLimit>

export type UpstreamLimits = { readonly [K in keyof typeof UPSTREAM_BOUNDS]: number }

export const DEFAULT_UPSTREAM_LIMITS: UpstreamLimits = Object.fromEntries(
  Object.entries(UPSTREAM_BOUNDS).map(([name, { value }]) => [name, value]),
) as UpstreamLimits
