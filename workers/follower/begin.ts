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
