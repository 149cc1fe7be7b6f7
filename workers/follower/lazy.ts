/**
 * Fetches lazy state from the upstreams that have it, and stores it through the persistence thread.
 */
import type { MessagePort } from 'node:worker_threads'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { Suspicion } from '../../engine/sources/lazy/agree.ts'
import {
  type Budget,
  createBudget,
  DEFAULT_BUDGET_LIMITS,
} from '../../engine/sources/lazy/budget.ts'
import type { Depths, LazyMode, Probed } from '../../engine/sources/lazy/depth.ts'
import {
  createFetcher,
  DEFAULT_FETCH_LIMITS,
  type FetchCount,
  type Fetcher,
} from '../../engine/sources/lazy/fetcher.ts'
import { createFillQueue } from '../../engine/sources/lazy/fill-queue.ts'
import { createGuesses } from '../../engine/sources/lazy/guesses.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import type { PersistenceResponse, StoreReader } from '../../engine/storage/types.ts'
import { postRequest } from '../persistence/request.ts'
import type { FollowerToWriter, WriterToFollower } from '../thread/follower-messages.ts'
import { headAt } from './own-chain.ts'
import { CLOCK } from './upstreams.ts'

/** The upstreams' ability to serve state, as probed at the start. */
export type LazyData = {
  readonly mode: LazyMode
  readonly probed: readonly Probed[]
  readonly rate: number
  /** Suspicions from the start, about values that most upstreams contradicted. */
  readonly suspicions: readonly Suspicion[]
}

export type LazyParts = {
  readonly mode: LazyMode
  readonly depths: Depths
  readonly budget: Budget
  readonly limits: UpstreamLimits
  readonly persistence: MessagePort
  /**
   * Port that takes fetched values instead of the persistence thread, and responds; undefined
   * without a recording.
   */
  readonly recorder: MessagePort | undefined
  readonly reader: ChainReader
  readonly store: StoreReader
  /**
   * Height of the newest local canonical block that the followed chain has too. Upstreams may lack
   * state above it.
   */
  readonly shared: () => number
  /** Usable upstreams, the best first, with the newest block that each has reported. */
  readonly upstreams: () => readonly {
    readonly upstream: Upstream
    readonly head: number | undefined
  }[]
  readonly warn: (message: string) => void
  readonly count: (what: FetchCount, by: number) => void
}

/** The persistence thread responds within a persist pass. */
const PERSISTENCE_MS = 8_000
/** Maximum number of open fills, of up to 2,048 rows each; further ones wait here. */
const MAX_OPEN_FILLS = 256

/** Makes the budget that all requests to upstreams share. */
export const openBudget = ({ rate }: LazyData): Budget =>
  createBudget({ ...DEFAULT_BUDGET_LIMITS, upstreamRate: rate }, CLOCK)

export function openFetcher(parts: LazyParts): Fetcher {
  const { mode, depths, limits, persistence, recorder, reader, store } = parts
  const fillQueue = createFillQueue({
    maxOpen: MAX_OPEN_FILLS,
    waitMs: PERSISTENCE_MS,
    after: CLOCK.after,
    send(request, block, rows) {
      const fill = { type: 'fill', request, block, rows } as const
      if (recorder === undefined) postRequest(persistence, fill)
      else recorder.postMessage(fill satisfies FollowerToWriter)
    },
  })
  const from = recorder ?? persistence
  from.on('message', (response: PersistenceResponse | WriterToFollower) => {
    if (response.type === 'filled') fillQueue.onResponse(response.request, response)
  })
  return createFetcher({
    mode,
    upstreams: () =>
      parts.upstreams().flatMap(({ upstream, head }) => {
        const depth = depths.of(upstream.name)
        return depth === undefined ? [] : [{ upstream, depth, head }]
      }),
    head: (max) => headAt(reader, store, Math.min(parts.shared(), max)),
    store,
    fill: fillQueue.fill,
    budget: parts.budget,
    guesses: createGuesses(store),
    clock: CLOCK,
    limits: {
      ...DEFAULT_FETCH_LIMITS,
      fetchMs: limits.upstreamCallMs,
      upstreamRestMs: limits.upstreamRestMs,
    },
    warn: parts.warn,
    count: parts.count,
  })
}
