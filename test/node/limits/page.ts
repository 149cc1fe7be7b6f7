/** These are limits of the status page. */

import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import { createFlashblockFeed } from '../../../rpc/events/flashblock-feed.ts'
import { openLive } from '../../../workers/observe/live.ts'
import { createMetrics } from '../../../workers/observe/metrics.ts'
import { createPageFiles } from '../../../workers/observe/page-files.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { IDLE } from '../../fixtures/metric-sources.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { openSocket, startServer } from '../../fixtures/sockets.ts'
import { row, type Some } from './row.ts'

const now = () => performance.now()
const metrics = () => createMetrics(IDLE, now)

/** Gives the outcome of the second viewer. */
async function second(changed: Partial<Limits>): Promise<string> {
  const limits = { ...DEFAULT_LIMITS, ...changed }
  const reader = memoryChain()
  const onPublish = () => () => {}
  const live = openLive({
    pageMode: 'dev',
    chain: CHAIN,
    reader,
    limits,
    now,
    metrics: metrics(),
    flashblocks: createFlashblockFeed({ reader, endpoint: 'flashblocks', onPublish, limits, now }),
    hasControls: false,
    readiness: () => ({ status: 'ready', reasons: [], outside: [], details: {} }),
    report: (what) => {
      throw new Error(what)
    },
    version: () => '0',
  })
  const status = { ...createPageFiles(), live: live!.open }
  const { server, url } = await startServer({ limits: changed, status })
  try {
    const open = () => openSocket(`${url.replace('http', 'ws')}/page/live`)
    const first = await open()
    await first.next()
    const other = await open()
    return await other.next().then(
      () => 'told',
      (error: Error) => error.message,
    )
  } finally {
    await server.close()
  }
}

export const PAGE = {
  pageViewers: row(
    1,
    'closed with 1013 too many status pages are open (--limit-page-viewers): try again later',
    second,
  ),
} satisfies Some
