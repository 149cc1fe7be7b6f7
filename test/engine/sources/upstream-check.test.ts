/** What an upstream's answers say about the chain that it has. */
import { expect, test } from 'vitest'
import { foreignChain } from '../../../engine/sources/upstream/check.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import type { Settled } from '../../../engine/sources/upstream/transport.ts'

const OURS = `0x${'ab'.repeat(32)}`
const OTHER = `0x${'12'.repeat(32)}`
const CHAIN = {
  chainId: 196n,
  genesisHash: new Uint8Array(32).fill(0xab),
  genesisNumber: 5n,
  name: 'ours',
}
const silent = { error: new UpstreamError('silent', 'u is silent') }

function upstreamOf(answers: readonly Settled[]): Upstream {
  return {
    ...{ name: 'u', isWatching: false, lostConnections: 0, watchHeads: undefined, close() {} },
    call: () => Promise.reject(new Error('one batch has to do')),
    async batch(calls) {
      expect(calls.map(({ method, params }) => [method, ...params])).toEqual([
        ['eth_chainId'],
        ['eth_getBlockByNumber', '0x5', false],
      ])
      return answers
    },
  }
}

const advice = 'give another --upstream, or another --chain'
const cases: [what: string, id: unknown, first: unknown, outcome: string | undefined][] = [
  ['ours', '0xc4', { hash: OURS }, undefined],
  ['ours in capitals', '0xC4', { hash: `0x${'AB'.repeat(32)}` }, undefined],
  ['another id', '0x1', { hash: OURS }, `u has chain 1, not 196 (ours): ${advice}`],
  ['another id without the block', '0x1', null, `u has chain 1, not 196 (ours): ${advice}`],
  [
    'another first block',
    ...(['0xc4', { hash: OTHER }] as const),
    `u has block ${OTHER} as 5, the first of ours is ${OURS}: ${advice}`,
  ],
  ['no id', null, { hash: OURS }, 'wrong: u gives "null" as its chain id'],
  ['an id in decimals', 196, { hash: OURS }, 'wrong: u gives "196" as its chain id'],
  ['no first block', '0xc4', null, 'wrong: u has no block 5'],
  ...['text', 7, {}, [], { hash: null }, { hash: 7 }, { hash: OURS.slice(0, -1) }].map(
    (first): (typeof cases)[number] => [
      `${JSON.stringify(first)} for a block`,
      ...(['0xc4', first, 'wrong: u gives what is no block for block 5'] as const),
    ],
  ),
]
test.each(cases)('%s', async (_, id, first, outcome) => {
  expect(await outcomeOf([{ result: id }, { result: first }])).toBe(outcome)
})

test.each([
  ['of the id', [silent, { result: { hash: OTHER } }]],
  ['of the block', [{ result: '0xc4' }, silent]],
])('no answer %s says nothing', async (_, answers) => {
  expect(await outcomeOf(answers)).toBe('silent: u is silent')
})

async function outcomeOf(answers: readonly Settled[]): Promise<string | undefined> {
  try {
    return await foreignChain(upstreamOf(answers), CHAIN)
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    return `${error.kind}: ${error.message}`
  }
}
