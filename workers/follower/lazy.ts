/** State that this thread fetches for a node that has not all of it: from the upstreams that can give it, by the keeper into the database. */
import type { MessagePort } from 'node:worker_threads'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { Doubt } from '../../engine/sources/lazy/agree.ts'
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
import { createFillGate } from '../../engine/sources/lazy/fill-gate.ts'
import { createGuesses } from '../../engine/sources/lazy/guesses.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import type { KeeperAnswer, StoreReader } from '../../engine/storage/types.ts'
import { postRequest } from '../keeper/request.ts'
import type { FollowerToWriter, WriterToFollower } from '../thread/follower-messages.ts'
import { headAt } from './own-chain.ts'
import { CLOCK } from './upstreams.ts'

/** How the upstreams can be asked for state, as it was found out at the start. */
export type LazyData = {
  readonly mode: LazyMode
  readonly probed: readonly Probed[]
  /** Requests a second. */
  readonly rate: number
  /** What most upstreams contradicted when it was begun. */
  readonly doubts: readonly Doubt[]
}

export type LazyParts = {
  readonly mode: LazyMode
  readonly depths: Depths
  readonly budget: Budget
  readonly limits: UpstreamLimits
  readonly keeper: MessagePort
  /** Takes what is fetched in place of the keeper, and answers for it; undefined: nobody does. */
  readonly recorder: MessagePort | undefined
  readonly reader: ChainReader
  readonly store: StoreReader
  /** Height of our newest canonical block that the chain which is followed has too: above it the upstreams may have no state. */
  readonly shared: () => number
  /** The best first, with the newest block that each has told of. */
  readonly upstreams: () => readonly {
    readonly upstream: Upstream
    readonly head: number | undefined
  }[]
  readonly warn: (message: string) => void
  readonly count: (what: FetchCount, by: number) => void
}

/** The keeper answers within a fold. */
const KEEPER_MS = 8_000
/** Requests with state that the keeper has not answered yet: of up to 2,048 rows each. Further ones wait here. */
const MAX_OPEN_FILLS = 256

/** Of all that is asked of upstreams, whoever asks. */
export const openBudget = ({ rate }: LazyData): Budget =>
  createBudget({ ...DEFAULT_BUDGET_LIMITS, upstreamRate: rate }, CLOCK)

export function openFetcher(parts: LazyParts): Fetcher {
  const { mode, depths, limits, keeper, recorder, reader, store } = parts
  const gate = createFillGate({
    ...{ maxOpen: MAX_OPEN_FILLS, waitMs: KEEPER_MS, after: CLOCK.after },
    send(request, block, rows) {
      const fill = { type: 'fill', request, block, rows } as const
      if (recorder === undefined) postRequest(keeper, fill)
      else recorder.postMessage(fill satisfies FollowerToWriter)
    },
  })
  const from = recorder ?? keeper
  from.on('message', (answer: KeeperAnswer | WriterToFollower) => {
    if (answer.type === 'filled') gate.answered(answer.request, answer)
  })
  return createFetcher({
    mode,
    upstreams: () =>
      parts.upstreams().flatMap(({ upstream, head }) => {
        const depth = depths.of(upstream.name)
        return depth === undefined ? [] : [{ upstream, depth, head }]
      }),
    head: (most) => headAt(reader, store, Math.min(parts.shared(), most)),
    store,
    fill: gate.fill,
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
