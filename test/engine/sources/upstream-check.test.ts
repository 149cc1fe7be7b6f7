/** An upstream's responses show its chain. */
import { expect, test } from 'vitest'
import { foreignChain } from '../../../engine/sources/upstream/check.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import type { Settled } from '../../../engine/sources/upstream/messages.ts'

const OURS = `0x${'ab'.repeat(32)}`
const OTHER = `0x${'12'.repeat(32)}`
const CHAIN = {
  chainId: 196n,
  genesisHash: new Uint8Array(32).fill(0xab),
  genesisNumber: 5n,
  name: 'ours',
}
const silent = { error: new UpstreamError('silent', 'u is silent') }

function upstreamOf(responses: readonly Settled[]): Upstream {
  return {
    name: 'u',
    isWatching: false,
    lostConnections: 0,
    watchHeads: undefined,
    close() {},
    call: () => Promise.reject(new Error('one batch has to do')),
    async batch(calls) {
      expect(calls.map(({ method, params }) => [method, ...params])).toEqual([
        ['eth_chainId'],
        ['eth_getBlockByNumber', '0x5', false],
      ])
      return responses
    },
  }
}

const advice = 'give another --upstream, or another --chain'
const cases: [what: string, id: unknown, first: unknown, outcome: string | undefined][] = [
  ['ours', '0xc4', { hash: OURS }, undefined],
  ['our chain, in capital letters', '0xC4', { hash: `0x${'AB'.repeat(32)}` }, undefined],
  ['another chain id', '0x1', { hash: OURS }, `u has chain 1, not 196 (ours): ${advice}`],
  ['another chain id, and no first block', '0x1', null, `u has chain 1, not 196 (ours): ${advice}`],
  [
    'another first block',
    ...(['0xc4', { hash: OTHER }] as const),
    `u has block ${OTHER} as 5, the first of ours is ${OURS}: ${advice}`,
  ],
  ['a missing chain id', null, { hash: OURS }, 'wrong: u gives "null" as its chain id'],
  ['a decimal chain id', 196, { hash: OURS }, 'wrong: u gives "196" as its chain id'],
  ['no first block', '0xc4', null, 'wrong: u has no block 5'],
  ...['text', 7, {}, [], { hash: null }, { hash: 7 }, { hash: OURS.slice(0, -1) }].map(
    (first): (typeof cases)[number] => [
      `${JSON.stringify(first)} for a block`,
      ...(['0xc4', first, 'wrong: u gives what is no block for block 5'] as const),
    ],
  ),
]
test.each(cases)('an upstream is judged by its response: %s', async (_, id, first, outcome) => {
  expect(await outcomeOf([{ result: id }, { result: first }])).toBe(outcome)
})

test.each([
  ['to the chain id request', [silent, { result: { hash: OTHER } }]],
  ['to the block request', [{ result: '0xc4' }, silent]],
])('a missing response %s decides nothing', async (_, responses) => {
  expect(await outcomeOf(responses)).toBe('silent: u is silent')
})

async function outcomeOf(responses: readonly Settled[]): Promise<string | undefined> {
  try {
    return await foreignChain(upstreamOf(responses), CHAIN)
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    return `${error.kind}: ${error.message}`
  }
}
