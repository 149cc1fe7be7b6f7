/** Starts a node. Its threads start first, and load while the main thread loads its own modules. */
import { openChainReader } from '../../engine/chain/reader.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { isFetched } from '../../rpc/core/ports.ts'
import { openData } from '../data/open.ts'
import { openPool } from '../pool/open.ts'
import type { NodeContext } from '../process/context.ts'
import { checkOpenFiles } from '../process/open-files.ts'
import { watchHeaps } from '../thread/heaps.ts'
import { allThreads, createClaims, divide, FRONT_ROW } from '../thread/rows.ts'
import { beat, openClock } from '../thread/running-clock.ts'
import { startChainThreads } from './chain-threads.ts'
import type { Role } from './role.ts'
import type { Served } from './serve.ts'

/**
 * Resolves when the node is ready, or to undefined if it was stopped before.
 * @throws an error with a text of one line
 */
export async function startNode(requested: NodeContext, role: Role): Promise<Served | undefined> {
  const context = withFronts(requested, role)
  const { config } = context
  const division = divide(config.poolThreads, config.frontThreads)
  checkOpenFiles(allThreads(division))
  const data = await openData(context, role)
  // After a signal no thread is started, because it would be ended while it loads.
  if (context.lifecycle.isStopping) return undefined
  const watch = watchHeaps()
  context.lifecycle.onStop('the heap watch', watch.stop)
  const threads = startChainThreads(context, data, role)
  const { chain, database, shared } = data
  const row = { thread: FRONT_ROW, front: FRONT_ROW, latest: config.latest }
  const store = openStore(database)
  const reader = openChainReader({ ...row, views: shared.views, store, chain })
  const opened = openPool(context, data, {
    front: FRONT_ROW,
    reader,
    claims: createClaims(division.own),
    threads: division.own,
    allThreads: allThreads(division),
    isLazy: isFetched(role.mode),
  })
  const now = openClock(shared.clock)
  context.lifecycle.onStop('the clock', beat(now))
  const { serve } = await import('./serve.ts')
  return serve(context, { ...data, ...opened, threads, reader, heaps: watch.heaps, now }, role)
}

/** A node in a foreign process, or one that is recorded or replayed, has one front. */
function withFronts(context: NodeContext, role: Role): NodeContext {
  const isAlone = role.recording !== undefined || role.isGuest === true || role.hasNoPort === true
  return isAlone ? { ...context, config: { ...context.config, frontThreads: 1 } } : context
}
