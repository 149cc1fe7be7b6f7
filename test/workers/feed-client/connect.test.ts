import { expect, test } from 'vitest'
import { connectFeeds } from '../../../workers/feed-client/connect.ts'
import type { FromFeed } from '../../../workers/feed-client/messages.ts'
import { createMetrics } from '../../../workers/observe/metrics.ts'
import { IDLE } from '../../fixtures/metric-sources.ts'

const status = { feed: 1, isConnected: true, silentMs: 1_500, heldFrames: 2, heldBytes: 300 }

/** Connects the main thread's parts to two feeds, of which the second sends. */
async function receive(...messages: FromFeed[]) {
  const lines: unknown[][] = []
  const metrics = createMetrics(IDLE, () => 0)
  const connected = connectFeeds(
    {
      names: ['a.example', 'b.example'],
      listen(receiver) {
        for (const message of messages) receiver(1, message)
      },
      canonicalMoved() {},
      stop: async () => {},
    },
    {
      log: { info: (details: unknown, text?: string) => lines.push([text, details]) },
      report: (what, { reason, ...details } = {}) => lines.push([what, reason, details]),
      metrics,
    },
  )
  const text = await metrics.text()
  return {
    lines,
    suspicions: connected.suspicions().map(({ text }) => text),
    outside: connected.suspicions().map(({ outside }) => outside),
    statuses: connected.statuses(),
    metrics: text.split('\n').filter((line) => line.startsWith('flashnode_followed_feed')),
  }
}

const nobody = 'feed 0 (a.example) is not connected'
type Expected = Partial<Awaited<ReturnType<typeof receive>>>
const cases: [name: string, messages: FromFeed[], expected: Expected][] = [
  [
    'no message yet',
    [],
    {
      lines: [],
      suspicions: [nobody, 'feed 1 (b.example) is not connected'],
      outside: ['feed 0 is not connected', 'feed 1 is not connected'],
      statuses: [],
    },
  ],
  [
    'a connection',
    [{ type: 'connected' }],
    { lines: [['feed 1 (b.example): connected', { feed: 1 }]] },
  ],
  [
    'a status',
    [{ type: 'status', status, since: undefined }],
    {
      suspicions: [nobody],
      statuses: [{ ...status, name: 'b.example' }],
      metrics: [
        'flashnode_followed_feed{feed="1",value="connected"} 1',
        'flashnode_followed_feed{feed="1",value="silent_seconds"} 1.5',
        'flashnode_followed_feed{feed="1",value="held_frames"} 2',
        'flashnode_followed_feed{feed="1",value="held_bytes"} 300',
      ],
    },
  ],
  [
    'counts',
    [
      { type: 'count', what: 'frames', by: 2 },
      { type: 'count', what: 'frames', by: 3 },
      { type: 'refused', field: 'diff.transactions', by: 4 },
    ],
    {
      metrics: [
        'flashnode_followed_feed_total{feed="1",event="frames"} 5',
        'flashnode_followed_feed_refused_total{feed="1",field="diff.transactions"} 4',
      ],
    },
  ],
  [
    'a message of the peer on one short line',
    [{ type: 'warning', message: `lost: closed with 1000 \n\u001b[2J${'x'.repeat(999)}` }],
    {
      lines: [
        [
          'feed_doubt',
          `feed 1 (b.example): lost: closed with 1000 ??[2J${'x'.repeat(172)}`,
          { feed: 1 },
        ],
      ],
    },
  ],
  [
    'a replaced thread',
    [
      { type: 'failed', message: 'the feed_1 ended with 1' },
      { type: 'ready' },
      { type: 'status', status, since: undefined },
    ],
    { suspicions: [nobody], statuses: [{ ...status, name: 'b.example' }] },
  ],
  [
    'a lost thread of a connected feed',
    [
      { type: 'status', status, since: undefined },
      { type: 'failed', message: 'the feed_1 ended with 1' },
    ],
    {
      lines: [['feed_failed', 'feed 1 (b.example): the feed_1 ended with 1', { feed: 1 }]],
      suspicions: [nobody, 'feed 1 (b.example) is about to have another thread'],
      statuses: [{ ...status, name: 'b.example', isConnected: false }],
    },
  ],
]
test.each(cases)(
  'the state of the feeds is reported as expected: %s',
  async (_, messages, expected) => {
    expect(await receive(...messages)).toMatchObject(expected)
  },
)
