/** Starts a node. The threads are started first: they load while this one loads the rest of itself. */
import { openChainReader } from '../../engine/chain/reader.ts'
import { gated } from '../../engine/storage/blocks/gate.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { isFetched } from '../../rpc/seam/ports.ts'
import { openData } from '../data/open.ts'
import { openPool } from '../pool/open.ts'
import type { NodeContext } from '../process/context.ts'
import { checkOpenFiles } from '../process/open-files.ts'
import { watchHeaps } from '../thread/heaps.ts'
import { FRONT_ROW } from '../thread/rows.ts'
import { startChainThreads } from './chain-threads.ts'
import type { Role } from './role.ts'
import type { Served } from './serving.ts'

/** Ready when it resolves; undefined: it was told to stop before. @throws with one line that says what is wrong. */
export async function startNode(context: NodeContext, role: Role): Promise<Served | undefined> {
  checkOpenFiles(context.config.poolThreads)
  const data = await openData(context, role)
  // A signal came meanwhile: a thread that is started now would be ended while it loads.
  if (context.lifecycle.isStopping) return undefined
  const watch = watchHeaps()
  context.lifecycle.onStop('the watch over heaps', watch.stop)
  const threads = startChainThreads(context, data, role)
  const { chain, database, shared } = data
  const store = openStore(database)
  const { engine, latest, limits } = context.config
  // Each read through it costs: only what runs short calls here has one.
  const gate = engine === 'fast' && limits.nearTurnMs > 0 ? gated(store) : undefined
  const { views } = shared
  const reader = openChainReader({
    ...{ views, store: gate?.store ?? store, chain, thread: FRONT_ROW, latest },
  })
  const opened = openPool(context, data, { reader, gate, isLazy: isFetched(role.mode) })
  const { serve } = await import('./serving.ts')
  return serve(context, { ...data, ...opened, threads, reader, heaps: watch.heaps }, role)
}
