/** Small chains with everything that may happen to them, who reads what of them, and the rules that they cannot do without. */
import type { RuleName } from './rules.ts'
import type { Ask, Choice, Content, Reading, Scenario } from './scenario.ts'

export type Proof = {
  readonly scenario: Scenario
  /** Each switched off makes this scenario fail. */
  readonly needs: readonly RuleName[]
  /** More of the same, for the full form. */
  readonly isWide: boolean
}

const block = (
  name: string,
  number: number,
  parent: string,
  ...flashblocks: readonly string[]
): Content => ({ name, number, parent, flashblocks })
const withTransaction = (content: Content, transaction: number): Content => ({
  ...content,
  transaction,
})
const reads = (choices: readonly Choice[], asks: readonly Ask[], sessions = 1): Reading => ({
  sessions,
  choices,
  asks,
})

type Given = Pick<Scenario, 'name' | 'blocks' | 'readers'> & Partial<Scenario>
const scenario = (given: Given): Scenario => ({
  feed: [],
  sealed: [],
  pages: 6,
  ring: 64,
  foldDepth: 0,
  ...given,
})
const proof = (given: Given, ...needs: readonly RuleName[]): Proof => ({
  scenario: scenario(given),
  needs,
  isWide: false,
})
const wide = (given: Given): Proof => ({ scenario: scenario(given), needs: [], isWide: true })

const one = [block('1', 1, 'g', 'x', 'xy')]
const oneFeed = [
  ['1', 0],
  ['1', 1],
] as const
/** Blocks of one flashblock, one on the other. */
const three = [
  block('1', 1, 'g', 'x'),
  withTransaction(block('2', 2, '1', 'y'), 0),
  block('3', 3, '2', 'x'),
]
const threeFeed = [
  ['1', 0],
  ['2', 0],
  ['3', 0],
] as const
/** Payloads of one height that are all dropped: pages are needed again, and no keeper is. */
const payloads = ['A', 'B', 'C', 'D'].map((name) => block(name, 1, 'g', 'x', 'y'))
const payloadFeed = payloads.map(({ name }) => [name, 0] as const)
/** The source decides on another block 2 than the feed showed, or than it said before. */
const fork = [
  block('1', 1, 'g', 'x'),
  withTransaction(block('2A', 2, '1', 'x'), 0),
  block('2B', 2, '1', 'y'),
]
const forkFeed = [
  ['1', 0],
  ['2A', 0],
] as const
const rivals = [
  block('1A', 1, 'g', 'x'),
  block('1B', 1, 'g', 'x'),
  block('2A', 2, '1A', 'x'),
  block('2B', 2, '1A', 'x'),
]
/** And the transaction comes again above it. */
const longFork = [...fork, withTransaction(block('3B', 3, '2B', 'x'), 0)]
/** One branch changes a key in its second block, the other in its first. */
const twice = [block('1A', 1, 'g', 'x'), block('2A', 2, '1A', 'y'), block('1B', 1, 'g', 'y')]
const wiping = [block('1', 1, 'g', 'x'), block('2', 2, '1', 'Wx')]

export const PROOFS: readonly Proof[] = [
  proof(
    {
      name: 'one block',
      blocks: one,
      feed: oneFeed,
      sealed: ['1'],
      readers: [
        reads(
          ['pending', 'complete', 'canonical', { block: '1', index: 0 }],
          ['x', 'y', '#1', 'header'],
        ),
      ],
    },
    'slotLast',
    'headLast',
    'tags',
    'wholeBlocks',
    'prefixOfBase',
  ),
  proof({
    name: 'a block of two tables',
    blocks: one,
    feed: oneFeed,
    sealed: ['1'],
    isLarge: true,
    readers: [reads(['pending', { block: '1', index: 0 }], ['x', 'y'])],
  }),
  proof(
    {
      name: 'a second payload',
      blocks: fork,
      feed: [...forkFeed, ['2B', 0], 'flush'],
      readers: [reads(['pending'], ['x', 'y'])],
    },
    'newTable',
  ),
  proof(
    {
      name: 'pages again',
      blocks: payloads,
      feed: payloadFeed,
      pages: 2,
      readers: [reads(['pending'], ['x'], 2)],
    },
    'recheck',
    'rescan',
  ),
  proof(
    {
      name: 'handed over to a worker',
      blocks: payloads,
      feed: payloadFeed,
      pages: 2,
      readers: [reads(['pending'], ['x'], 2), { ...reads(['pending'], ['x']), isAdopter: true }],
    },
    'covered',
    'frontFirst',
    'coverChecked',
  ),
  proof(
    {
      name: 'two fronts',
      blocks: payloads.slice(0, 3),
      feed: payloadFeed.slice(0, 3),
      pages: 2,
      readers: [
        reads(['pending'], ['x']),
        reads([], [], 0),
        reads(['pending'], ['x']),
        { ...reads(['pending'], ['x']), isAdopter: true },
      ],
    },
    'ownFront',
  ),
  proof(
    {
      name: 'two leases of one thread',
      blocks: payloads,
      feed: payloadFeed,
      pages: 3,
      readers: [{ ...reads(['pending'], ['x']), isNested: true }],
    },
    'oldestRow',
  ),
  proof(
    {
      name: 'a small ring',
      blocks: payloads,
      feed: payloadFeed,
      ring: 2,
      readers: [reads(['pending'], ['x']), reads(['pending'], ['x'])],
    },
    'ringBound',
  ),
  proof(
    {
      name: 'a worker dies',
      blocks: three,
      sealed: ['1', '2', '3'],
      pages: 2,
      readers: [reads([], [], 0), { ...reads(['canonical'], ['y', 'header']), isMortal: true }],
    },
    'clearDead',
    'clearAfterExit',
  ),
  proof(
    {
      name: 'the fold frees pages',
      blocks: three,
      sealed: ['1', '2', '3'],
      pages: 2,
      readers: [reads(['canonical'], ['x', 'header'])],
    },
    'stopAtBase',
    'headIsBase',
  ),
  proof(
    {
      name: 'one block on the other',
      blocks: three,
      sealed: ['1', '2', '3'],
      readers: [reads(['canonical', 1], ['x', 'y', 'transaction', '#1', '#2'])],
    },
    'linkParent',
    'numberFromChain',
    'rowsAbove',
    'appendFirst',
    'foldWordFirst',
    'foldCheck',
    'checkAfter',
    'flatThenHistory',
    'pair',
    'prevStored',
    'foldRepeated',
    'baseFromAnswer',
  ),
  proof(
    {
      name: 'a reorg',
      blocks: fork,
      sealed: ['1', '2A', '2B'],
      readers: [reads(['canonical'], ['y', 'transaction'])],
    },
    'foldById',
    'historyAtBase',
    'indexAtFold',
  ),
  proof(
    {
      name: 'the arena full of what the source contradicts',
      blocks: rivals,
      feed: [['1A', 0]],
      sealed: ['1B'],
      pages: 1,
      readers: [reads(['pending'], ['x'])],
    },
    'canonicalRoom',
  ),
  proof(
    {
      name: 'a block on its way through the keeper',
      blocks: rivals,
      feed: [
        ['1A', 0],
        ['2A', 0],
        ['2B', 0],
      ],
      sealed: ['1B'],
      pages: 3,
      readers: [reads(['canonical'], ['x'])],
    },
    'handed',
  ),
  proof(
    {
      name: 'a payload of a decided block',
      blocks: fork,
      feed: [...forkFeed, ['2B', 0]],
      sealed: ['1', '2A'],
      readers: [],
    },
    'handedHeight',
  ),
  proof(
    {
      name: 'a deep reorg',
      blocks: fork,
      sealed: ['1', '2A', '2B'],
      readers: [reads(['canonical', 1], ['x', 'transaction'])],
    },
    'unfoldCheck',
    'unfoldFirst',
    'unfoldLast',
    'unfoldFromAck',
    'appendBeforeUnfold',
    'openUnfolds',
    'foldUndone',
  ),
  proof(
    {
      name: 'a wipe',
      blocks: wiping,
      sealed: ['1', '2'],
      readers: [reads(['canonical', 1], ['a', 'x', 'y'])],
    },
    'wipe',
  ),
  proof(
    {
      name: 'pruned history',
      blocks: wiping,
      sealed: ['1', '2'],
      pruned: 1,
      readers: [reads([0, 1], ['x'])],
    },
    'pruneFirst',
    'pruneCheck',
    'horizonDurable',
  ),
  proof(
    {
      name: 'a cache',
      blocks: three,
      sealed: ['1', '2'],
      hasCache: true,
      readers: [reads(['canonical'], ['y'], 2)],
    },
    'cacheStamp',
    'stampFirst',
  ),
  proof(
    {
      name: 'a cache and an older view',
      blocks: three,
      sealed: ['1'],
      hasCache: true,
      readers: [
        reads(['canonical'], ['x']),
        { ...reads(['canonical'], ['x'], 2), isAdopter: true, isLateAdopter: true },
      ],
    },
    'cacheInChain',
  ),
  proof(
    {
      name: 'a cache and a deep reorg',
      blocks: twice,
      sealed: ['1A', '2A', '1B'],
      hasCache: true,
      readers: [reads(['canonical'], ['y'], 2)],
    },
    'cacheUnfolds',
    'cacheVoid',
  ),
  wide({
    name: 'one block on the other, from the feed',
    blocks: [block('1', 1, 'g', 'x', 'y'), withTransaction(block('2', 2, '1', 'y', 'x'), 1)],
    feed: [
      ['1', 0],
      ['1', 1],
      ['2', 0],
      ['2', 1],
    ],
    sealed: ['1', '2'],
    pages: 3,
    readers: [
      reads(
        ['pending', 'complete', 'canonical', 1, { block: '1', index: 0 }, { block: '2', index: 0 }],
        ['x', 'y', 'transaction', '#1', 'header'],
      ),
    ],
  }),
  wide({
    name: 'the fold frees pages under two readers',
    blocks: three,
    sealed: ['1', '2', '3'],
    pages: 2,
    readers: [reads(['canonical'], ['x']), reads(['canonical'], ['header'])],
  }),
  wide({
    name: 'the fold frees pages under a view handed over',
    blocks: three,
    sealed: ['1', '2', '3'],
    pages: 2,
    readers: [
      reads(['canonical'], ['x']),
      { ...reads(['canonical'], ['header']), isAdopter: true },
    ],
  }),
  wide({
    name: 'a reorg of what the feed showed',
    blocks: fork,
    feed: forkFeed,
    sealed: ['1', '2B'],
    pages: 3,
    readers: [reads(['pending', 'canonical', 1], ['x', 'y', 'transaction', '#1', '#2', 'header'])],
  }),
  wide({
    name: 'a deep reorg while the feed goes on',
    blocks: longFork,
    feed: [...forkFeed, ['3B', 0]],
    sealed: ['1', '2A', '2B', '3B'],
    pages: 5,
    readers: [reads(['pending', 'canonical'], ['x', 'transaction', '#2'])],
  }),
  wide({
    name: 'a cache while the feed goes on',
    blocks: three,
    feed: threeFeed,
    sealed: ['1', '2', '3'],
    hasCache: true,
    readers: [reads(['pending', 'canonical'], ['x'], 2)],
  }),
]
