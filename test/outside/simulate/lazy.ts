/**
 * Fetched state: the real start, fetcher, traces and checks over simulated upstreams, joined like
 * in the product.
 */
import type { ChainReader } from '../../../engine/chain/types.ts'
import { createBudget, DEFAULT_BUDGET_LIMITS } from '../../../engine/sources/lazy/budget.ts'
import {
  type Depths,
  type LazyMode,
  lazyMode,
  type Probed,
} from '../../../engine/sources/lazy/depth.ts'
import {
  createFetcher,
  DEFAULT_FETCH_LIMITS,
  type Fetcher,
} from '../../../engine/sources/lazy/fetcher.ts'
import { createGuesses } from '../../../engine/sources/lazy/guesses.ts'
import { namedIn, probeAll, sourcesIn } from '../../../engine/sources/lazy/probe.ts'
import {
  type LazyStarted,
  type LazyStartOptions,
  startLazy,
} from '../../../engine/sources/lazy/start.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import type { UpstreamLimits } from '../../../engine/sources/upstream/limits.ts'
import type { FillRow, StoredHead, StoreReader } from '../../../engine/storage/types.ts'
import { headAt } from '../../../workers/follower/own-chain.ts'
import type { VirtualClock } from './clock.ts'

export type Lazy = { readonly mode: LazyMode; readonly probed: readonly Probed[] }
export type Started = Lazy & { readonly lazyStart: LazyStarted }

const RATE = 2_000

/**
 * Starts the state before any other thread exists.
 * @throws {UpstreamError} {LazyStartError} where no start is possible now
 */
export async function startLazily(
  upstreams: readonly Upstream[],
  options: LazyStartOptions,
): Promise<Started> {
  const { probed, silent } = await probeAll(upstreams, options.chain)
  if (probed.length === 0) throw new UpstreamError('silent', silent.join())
  const named = namedIn(probed)
  const decided = lazyMode(named, true)
  if ('refused' in decided) throw new UpstreamError('refused', decided.refused)
  const { mode } = decided
  return { mode, probed: named, lazyStart: await startLazy(sourcesIn(mode, probed), options) }
}

export function openFetcher(parts: {
  readonly lazy: Lazy
  readonly depths: Depths
  readonly clock: VirtualClock
  readonly limits: UpstreamLimits
  readonly reader: ChainReader
  readonly store: StoreReader
  readonly upstreams: () => readonly {
    readonly upstream: Upstream
    readonly head: number | undefined
  }[]
  readonly shared: () => number
  readonly fill: (
    block: StoredHead,
    rows: readonly FillRow[],
  ) => Promise<{ readonly written: number }>
  readonly count: (what: string, by: number) => void
}): Fetcher {
  const { lazy, depths, clock, limits, reader, store, fill, count } = parts
  return createFetcher({
    mode: lazy.mode,
    store,
    fill,
    clock,
    count,
    upstreams: () =>
      parts.upstreams().flatMap(({ upstream, head }) => {
        const depth = depths.of(upstream.name)
        return depth === undefined ? [] : [{ upstream, depth, head }]
      }),
    head: (max) => headAt(reader, store, Math.min(parts.shared(), max)),
    budget: createBudget({ ...DEFAULT_BUDGET_LIMITS, upstreamRate: RATE }, clock),
    guesses: createGuesses(store),
    limits: { ...DEFAULT_FETCH_LIMITS, upstreamRestMs: limits.upstreamRestMs },
    warn() {},
  })
}
