/** Starts a node. The threads are started first: they load while this one loads the rest of itself. */
import { openChainReader } from '../engine/chain/reader.ts'
import { openStore } from '../engine/storage/store.ts'
import { startChainThreads } from './chain-threads.ts'
import type { NodeContext } from './context.ts'
import { watchHeaps } from './heaps.ts'
import { openData } from './open.ts'
import { openPool } from './open-pool.ts'
import { FRONT_ROW } from './threads.ts'

/** Ready when it resolves. @throws with one line that says what is wrong. */
export async function startNode(context: NodeContext): Promise<void> {
  const data = await openData(context)
  // A signal came meanwhile: a thread that is started now would be ended while it loads.
  if (context.lifecycle.isStopping) return
  const heaps = watchHeaps()
  const threads = startChainThreads(context, data)
  const { chain, database, shared } = data
  const store = openStore(database)
  const reader = openChainReader({ views: shared.views, store, chain, thread: FRONT_ROW })
  const { pool, jobs } = openPool(context, data, reader)
  const { serve } = await import('./serving.ts')
  await serve(context, { ...data, threads, reader, heaps, pool, jobs })
}
