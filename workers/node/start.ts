/** Starts a node. The threads are started first: they load while this one loads the rest of itself. */
import { openChainReader } from '../../engine/chain/reader.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { isFetched } from '../../rpc/seam/ports.ts'
import { openData } from '../data/open.ts'
import { openPool } from '../pool/open.ts'
import type { NodeContext } from '../process/context.ts'
import { checkOpenFiles } from '../process/open-files.ts'
import { watchHeaps } from '../thread/heaps.ts'
import { allThreads, createClaims, divide, FRONT_ROW } from '../thread/rows.ts'
import { beat, openClock } from '../thread/running-clock.ts'
import { startChainThreads } from './chain-threads.ts'
import type { Role } from './role.ts'
import type { Served } from './serving.ts'

/** Ready when it resolves; undefined: it was told to stop before. @throws with one line that says what is wrong. */
export async function startNode(asked: NodeContext, role: Role): Promise<Served | undefined> {
  const context = withFronts(asked, role)
  const { config } = context
  const division = divide(config.poolThreads, config.frontThreads)
  checkOpenFiles(allThreads(division))
  const data = await openData(context, role)
  // A signal came meanwhile: a thread that is started now would be ended while it loads.
  if (context.lifecycle.isStopping) return undefined
  const watch = watchHeaps()
  context.lifecycle.onStop('the watch over heaps', watch.stop)
  const threads = startChainThreads(context, data, role)
  const { chain, database, shared } = data
  const row = { thread: FRONT_ROW, front: FRONT_ROW, latest: config.latest }
  const store = openStore(database)
  const reader = openChainReader({ ...row, views: shared.views, store, chain })
  const opened = openPool(context, data, {
    ...{ front: FRONT_ROW, reader },
    claims: createClaims(division.own),
    threads: division.own,
    allThreads: allThreads(division),
    isLazy: isFetched(role.mode),
  })
  const now = openClock(shared.clock)
  context.lifecycle.onStop('the clock', beat(now))
  const { serve } = await import('./serving.ts')
  return serve(context, { ...data, ...opened, threads, reader, heaps: watch.heaps, now }, role)
}

/** A node that is asked in its process, or from a record, has one front. */
function withFronts(context: NodeContext, role: Role): NodeContext {
  const isAlone = role.tape !== undefined || role.isGuest === true || role.hasNoPort === true
  return isAlone ? { ...context, config: { ...context.config, frontThreads: 1 } } : context
}
