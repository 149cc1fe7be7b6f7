/**
 * Checks if lazy state needs a resync: compares the local canonical chain with the upstreams'
 * current one.
 */
import type { ChainReader } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Budget } from '../../engine/sources/lazy/budget.ts'
import type { Depths, LazyMode } from '../../engine/sources/lazy/depth.ts'
import { paced } from '../../engine/sources/lazy/paced-upstream.ts'
import { createResyncer, type Resyncer } from '../../engine/sources/lazy/resync.ts'
import { type KnownChain, knownStart } from '../../engine/sources/lazy/start.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import type { Clock } from '../../engine/sources/upstream/permits.ts'
import type { TrackerStatus } from '../../engine/sources/upstream/tracker-types.ts'
import type { LazyResync } from '../../engine/sources/writer/types.ts'
import type { StoreReader } from '../../engine/storage/types.ts'
import { settledHashOf } from './own-chain.ts'

export function openResyncer(parts: {
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
  readonly resync: (resyncStart: LazyResync) => void
}): Resyncer {
  const { mode, depths, budget, chain, store, reader, undoBlocks, limits, warn, resync } = parts
  return createResyncer({
    mode,
    depths,
    chain,
    undoBlocks,
    warn,
    resync,
    upstreams: parts.upstreams.map((one) => paced(one, budget, { what: 'canonical', client: '' })),
    lagBlocks: limits.upstreamLagBlocks,
    known: () => knownNow(reader, store),
  })
}

/** Milliseconds between two probes of upstreams that respond, but whose depth is unknown. */
const LATE_MS = 5_000
/** Milliseconds between two probes while no usable upstream gives the needed state. */
const UNUSABLE_MS = 60_000

/** Probes the depth of upstreams that were unreachable at the start or at the last probe. */
export function createLateProbes(parts: {
  readonly beginner: Resyncer
  readonly depths: Depths
  readonly askable: () => readonly {
    readonly upstream: Pick<Upstream, 'name'>
    readonly head: number | undefined
  }[]
  readonly clock: Pick<Clock, 'now'>
}) {
  const { beginner, depths, askable, clock } = parts
  let checkAtMs = clock.now()
  return {
    probe(onBug: (error: unknown) => void): void {
      const responding = askable().filter(({ head }) => head !== undefined)
      const isLate = responding.some(({ upstream }) => !depths.isProbed(upstream.name))
      const isLacking =
        responding.length > 0 &&
        responding.every(({ upstream: { name } }) => depths.of(name) === undefined)
      if (!(isLate || isLacking) || clock.now() < checkAtMs) return
      checkAtMs = clock.now() + (isLate ? LATE_MS : UNUSABLE_MS)
      beginner.check().catch(onBug)
    },
    /** Adds the reason why no state can be fetched. */
    statusWith(status: TrackerStatus): TrackerStatus {
      const unusableReason = depths.unusableReason()
      if (unusableReason === undefined) return status
      const suspicion = {
        text: unusableReason,
        outside: 'no upstream gives the state that is fetched',
      }
      return { ...status, degraded: [...status.degraded, suspicion] }
    },
  }
}

/** @throws {ViewError} 'void' or 'gone' while blocks are unwound */
export const knownNow = (reader: ChainReader, store: StoreReader): KnownChain => ({
  ...knownStart(store),
  ...readNewest(reader, 'standard', ({ canonical, block }) => ({
    head: Number(canonical.number),
    finalized: Number(block({ tag: 'finalized' })?.number ?? 0),
  })),
  isCut: false,
  hashOf: (number) => settledHashOf(reader, number),
})
