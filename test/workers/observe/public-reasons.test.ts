/** The status page of the public port says why a node is not ready, and not whom it follows; that of the admin port says both. */
import { expect, test } from 'vitest'
import { createFlashblockFeed } from '../../../rpc/events/flashblock-feed.ts'
import type { LiveMessage } from '../../../rpc/page/messages.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import { openLive } from '../../../workers/observe/live.ts'
import { createMetrics } from '../../../workers/observe/metrics.ts'
import { createPageFiles } from '../../../workers/observe/page-files.ts'
import { publicReasons } from '../../../workers/observe/public-reasons.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { AT_REST } from '../../fixtures/metric-sources.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { openSocket, startServer } from '../../fixtures/sockets.ts'

const UPSTREAM = 'https://node.example'
const FEED = 'feed.example:8545'
const DETAILS = { upstreams: [{ name: UPSTREAM }], feeds: [{ name: FEED, isConnected: false }] }

test.each([
  [`feed 0 (${FEED}) is not connected`, 'feed 0 is not connected'],
  [`no upstream answers: ${UPSTREAM}: connect ECONNREFUSED 192.0.2.1:443`, 'no upstream answers …'],
  [`${UPSTREAM}: contradicts the others`, 'whom it follows is in doubt'],
  [`cannot reach ${UPSTREAM}: 192.0.2.1`, 'cannot reach …'],
  ['the feed is silent for 3.0 s', 'the feed is silent for 3.0 s'],
])('%s', (reason, told) => expect(publicReasons([reason], DETAILS)).toEqual([told]))

test('without details there is nothing to leave out', () => {
  expect(publicReasons(['starting'], {})).toEqual(['starting'])
})

test('each port tells its own', async () => {
  const now = () => performance.now()
  const [reader, limits] = [memoryChain(), DEFAULT_LIMITS]
  const onPublish = () => () => {}
  const reasons = [`feed 0 (${FEED}) is not connected`]
  const live = openLive({
    ...{ pageMode: 'trusted', chain: CHAIN, reader, limits, now, hasControls: false },
    metrics: createMetrics(AT_REST, now),
    flashblocks: createFlashblockFeed({ reader, endpoint: 'flashblocks', onPublish, limits, now }),
    readiness: () => ({ status: 'degraded', reasons, details: DETAILS }),
    report: (what) => {
      throw new Error(what)
    },
    version: () => '0',
  })!
  const told = async (open: typeof live.open): Promise<string> => {
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
  const outside = await told(live.open)
  expect(outside).toContain('feed 0 is not connected')
  expect(outside).not.toMatch(/example/)
  expect(await told(live.openInside)).toContain(FEED)
})
