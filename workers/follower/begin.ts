/** Whether the state is to begin anew, as the follower's thread looks: what is canonical here against what the upstreams say now. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { type Beginner, createBeginner } from '../../engine/sources/lazy/anew.ts'
import type { Budget } from '../../engine/sources/lazy/budget.ts'
import type { Depths, LazyMode } from '../../engine/sources/lazy/depth.ts'
import { paced } from '../../engine/sources/lazy/pace.ts'
import { type KnownChain, knownStart } from '../../engine/sources/lazy/start.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import type { Clock } from '../../engine/sources/upstream/places.ts'
import type { TrackerStatus } from '../../engine/sources/upstream/tracker-types.ts'
import type { LazyBeginning } from '../../engine/sources/writer/types.ts'
import type { StoreReader } from '../../engine/storage/types.ts'
import { settledHashOf } from './own-chain.ts'

export function openBeginner(parts: {
  readonly mode: LazyMode
  readonly depths: Depths
  readonly budget: Budget
  readonly chain: ChainSpec
  readonly store: StoreReader
  readonly reader: ChainReader
  readonly upstreams: readonly Upstream[]
  readonly undoBlocks: number
  readonly limits: Pick<UpstreamLimits, 'upstreamLagBlocks'>
  readonly warn: (message: string) => void
  readonly begin: (beginning: LazyBeginning) => void
}): Beginner {
  const { mode, depths, budget, chain, store, reader, undoBlocks, limits, warn, begin } = parts
  return createBeginner({
    ...{ mode, depths, chain, undoBlocks, warn, begin },
    upstreams: parts.upstreams.map((one) => paced(one, budget, { what: 'canonical', client: '' })),
    lagBlocks: limits.upstreamLagBlocks,
    known: () => knownNow(reader, store),
  })
}

/** Between two looks at upstreams that answer and have not said how deep they are. */
const LATE_MS = 5_000
/** Milliseconds between two looks while none that may be asked gives what is needed. */
const LACK_MS = 60_000

/** Upstreams that were away at the start, or at the last look, say how deep they are once they answer. */
export function createLateProbes(parts: {
  readonly beginner: Beginner
  readonly depths: Depths
  /** The upstreams that may be asked now. */
  readonly told: () => readonly {
    readonly upstream: Pick<Upstream, 'name'>
    readonly head: number | undefined
  }[]
  readonly clock: Pick<Clock, 'now'>
}) {
  const { beginner, depths, told, clock } = parts
  let lookAtMs = clock.now()
  return {
    probe(onBug: (error: unknown) => void): void {
      const answering = told().filter(({ head }) => head !== undefined)
      const isLate = answering.some(({ upstream }) => !depths.isProbed(upstream.name))
      const isLacking =
        answering.length > 0 &&
        answering.every(({ upstream: { name } }) => depths.of(name) === undefined)
      if (!(isLate || isLacking) || clock.now() < lookAtMs) return
      lookAtMs = clock.now() + (isLate ? LATE_MS : LACK_MS)
      beginner.look().catch(onBug)
    },
    /** The status says as well why no state can be fetched. */
    statusWith(status: TrackerStatus): TrackerStatus {
      const lack = depths.lack()
      if (lack === undefined) return status
      const doubt = { text: lack, outside: 'no upstream gives the state that is fetched' }
      return { ...status, degraded: [...status.degraded, doubt] }
    },
  }
}

/** @throws {ViewError} 'void' or 'gone' while blocks are taken back */
export const knownNow = (reader: ChainReader, store: StoreReader): KnownChain => ({
  ...knownStart(store),
  ...readNewest(reader, 'standard', ({ canonical, block }) => ({
    head: Number(canonical.number),
    finalized: Number(block({ tag: 'finalized' })?.number ?? 0),
  })),
  isCut: false,
  hashOf: (number) => settledHashOf(reader, number),
})
