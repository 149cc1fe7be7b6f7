/** The banner of a ready node shows these lines. */
import { describe, expect, test } from 'vitest'
import { type Addresses, addressLines } from '../../../workers/front/banner.ts'

const NODE: Addresses = {
  url: 'http://127.0.0.1:8545',
  hasFeed: true,
  hasPage: true,
  rateLimit: 100,
  continued: undefined,
}

describe('the address lines of the banner', () => {
  const cases: [name: string, node: Addresses, text: string][] = [
    [
      'a new chain',
      NODE,
      `  http://127.0.0.1:8545/            sealed blocks only
  http://127.0.0.1:8545/flashblocks pending from flashblocks
  ws://127.0.0.1:8545/flashblocks   the same, WebSocket
  ws://127.0.0.1:8545/feed          raw flashblocks feed
  http://127.0.0.1:8545/            browser: status page
  at most 100 requests/s for each client address; --rate-limit off removes the limit

`,
    ],
    [
      'a continued chain without a limit, a feed and a page',
      {
        ...NODE,
        hasFeed: false,
        hasPage: false,
        rateLimit: 'off',
        continued: { path: 'DIR', block: 2_673, hint: '; --ephemeral starts a new chain' },
      },
      `continues DIR from block 2673; --ephemeral starts a new chain
  http://127.0.0.1:8545/            sealed blocks only
  http://127.0.0.1:8545/flashblocks pending from flashblocks
  ws://127.0.0.1:8545/flashblocks   the same, WebSocket

`,
    ],
  ]
  test.each(cases)('are as expected for %s', (_name, node, text) =>
    expect(addressLines(node)).toBe(text),
  )
})
