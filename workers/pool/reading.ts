/** How a front reads the chain: through a gate where it runs short calls itself. */
import { openChainReader } from '../../engine/chain/reader.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { gated } from '../../engine/storage/blocks/gate.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import type { Database } from '../../engine/storage/database/types.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import type { NodeConfig } from '../config/serving.ts'
import type { FrontReading } from './open.ts'

/** @param front its row, for itself and its workers */
export function openReading(
  { engine, latest, limits }: Pick<NodeConfig, 'engine' | 'latest' | 'limits'>,
  chain: {
    readonly chain: ChainSpec
    readonly database: Database
    readonly views: SharedViews
  },
  front: number,
): FrontReading {
  const { database, ...rest } = chain
  const store = openStore(database)
  // Each read through it costs: only what runs short calls here has one.
  const gate = engine === 'fast' && limits.nearTurnMs > 0 ? gated(store) : undefined
  const reader = openChainReader({
    ...{ ...rest, store: gate?.store ?? store, thread: front, front, latest },
  })
  return { front, reader, gate }
}
