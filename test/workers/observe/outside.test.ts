/**
 * The status page of the public port says why a node is not ready, but not whom it follows. The
 * page of the admin port says both.
 */
import { expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { createFlashblockFeed } from '../../../rpc/events/flashblock-feed.ts'
import type { LiveMessage } from '../../../rpc/page/messages.ts'
import { openLive } from '../../../workers/observe/live.ts'
import { createMetrics } from '../../../workers/observe/metrics.ts'
import { createPageFiles } from '../../../workers/observe/page-files.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { IDLE } from '../../fixtures/metric-sources.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { openSocket, startServer } from '../../fixtures/sockets.ts'

const FEED = 'feed.example:8545'
const DETAILS = { feeds: [{ name: FEED, isConnected: false }] }

test('the public status page hides the name of a feed, and the admin page has it', async () => {
  const now = () => performance.now()
  const [reader, limits] = [memoryChain(), DEFAULT_LIMITS]
  const onPublish = () => () => {}
  const reasons = [`feed 0 (${FEED}) is not connected`]
  const outside = ['feed 0 is not connected']
  const live = openLive({
    pageMode: 'trusted',
    chain: CHAIN,
    reader,
    limits,
    now,
    hasControls: false,
    metrics: createMetrics(IDLE, now),
    flashblocks: createFlashblockFeed({ reader, endpoint: 'flashblocks', onPublish, limits, now }),
    readiness: () => ({ status: 'degraded', reasons, outside, details: DETAILS }),
    report: (what) => {
      throw new Error(what)
    },
    version: () => '0',
  })!
  const reported = async (open: typeof live.open): Promise<string> => {
    const { server, url } = await startServer({ status: { ...createPageFiles(), live: open } })
    const socket = await openSocket(`${url.replace('http', 'ws')}/page/live`)
    try {
      for (;;) {
        const text = await socket.next()
        if ((JSON.parse(text) as LiveMessage[]).some(({ type }) => type === 'figures')) return text
      }
    } finally {
      await server.close()
    }
  }
  const anybody = await reported(live.open)
  expect(anybody).toContain('feed 0 is not connected')
  expect(anybody).not.toMatch(/example/)
  expect(await reported(live.openInside)).toContain(FEED)
})
