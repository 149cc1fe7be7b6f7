/** Small chains with all possible events, their readers, and the rules that each of them needs. */
import type { RuleName } from './rules.ts'
import type { Choice, Content, Query, Reading, Scenario } from './scenario.ts'

export type Proof = {
  readonly scenario: Scenario
  /** Without any one of these rules the scenario fails. */
  readonly needs: readonly RuleName[]
  /** The scenario is larger than the others and runs in the full form only. */
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
const reads = (choices: readonly Choice[], requests: readonly Query[], sessions = 1): Reading => ({
  sessions,
  choices,
  requests,
})

type Given = Pick<Scenario, 'name' | 'blocks' | 'readers'> & Partial<Scenario>
const scenario = (given: Given): Scenario => ({
  feed: [],
  upstreamBlocks: [],
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
/** Three blocks of one flashblock, each on the one before. */
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
/**
 * Payloads of one height that are all dropped. They need pages again, but no persistence thread.
 */
const payloads = ['A', 'B', 'C', 'D'].map((name) => block(name, 1, 'g', 'x', 'y'))
const payloadFeed = payloads.map(({ name }) => [name, 0] as const)
/** The source decides on another block 2 than the feed brought, or than it decided before. */
const fork = [
  block('1', 1, 'g', 'x'),
  withTransaction(block('2A', 2, '1', 'x'), 0),
  block('2B', 2, '1', 'y'),
]
const forkFeed = [
  ['1', 0],
  ['2A', 0],
] as const
const competingBlocks = [
  block('1A', 1, 'g', 'x'),
  block('1B', 1, 'g', 'x'),
  block('2A', 2, '1A', 'x'),
  block('2B', 2, '1A', 'x'),
]
/** The transaction comes again above the fork. */
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
      upstreamBlocks: ['1'],
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
    'completeBlocks',
    'prefixOfBase',
  ),
  proof({
    name: 'a block of two diff layers',
    blocks: one,
    feed: oneFeed,
    upstreamBlocks: ['1'],
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
    'newDiffLayer',
  ),
  proof(
    {
      name: 'recycled pages',
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
      name: 'a snapshot passed to a worker',
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
      name: 'a small ring of snapshots',
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
      upstreamBlocks: ['1', '2', '3'],
      pages: 2,
      readers: [reads([], [], 0), { ...reads(['canonical'], ['y', 'header']), isMortal: true }],
    },
    'clearDead',
    'clearAfterExit',
  ),
  proof(
    {
      name: 'the persist pass frees pages',
      blocks: three,
      upstreamBlocks: ['1', '2', '3'],
      pages: 2,
      readers: [reads(['canonical'], ['x', 'header'])],
    },
    'stopAtBase',
    'headIsBase',
  ),
  proof(
    {
      name: 'a chain of three blocks',
      blocks: three,
      upstreamBlocks: ['1', '2', '3'],
      readers: [reads(['canonical', 1], ['x', 'y', 'transaction', '#1', '#2'])],
    },
    'linkParent',
    'numberFromChain',
    'rowsAbove',
    'appendFirst',
    'persistWordFirst',
    'persistCheck',
    'checkAfter',
    'flatThenHistory',
    'pair',
    'prevStored',
    'persistRepeated',
    'baseFromResponse',
  ),
  proof(
    {
      name: 'a reorg',
      blocks: fork,
      upstreamBlocks: ['1', '2A', '2B'],
      readers: [reads(['canonical'], ['y', 'transaction'])],
    },
    'persistById',
    'historyAtBase',
    'indexAtPersist',
  ),
  proof(
    {
      name: 'an arena full of competing blocks',
      blocks: competingBlocks,
      feed: [['1A', 0]],
      upstreamBlocks: ['1B'],
      pages: 1,
      readers: [reads(['pending'], ['x'])],
    },
    'canonicalCapacity',
  ),
  proof(
    {
      name: 'a submitted block',
      blocks: competingBlocks,
      feed: [
        ['1A', 0],
        ['2A', 0],
        ['2B', 0],
      ],
      upstreamBlocks: ['1B'],
      pages: 3,
      readers: [reads(['canonical'], ['x'])],
    },
    'submitted',
  ),
  proof(
    {
      name: 'a second payload of a submitted block',
      blocks: fork,
      feed: [...forkFeed, ['2B', 0]],
      upstreamBlocks: ['1', '2A'],
      readers: [],
    },
    'submittedHeight',
  ),
  proof(
    {
      name: 'a deep reorg',
      blocks: fork,
      upstreamBlocks: ['1', '2A', '2B'],
      readers: [reads(['canonical', 1], ['x', 'transaction'])],
    },
    'unwindCheck',
    'unwindFirst',
    'unwindLast',
    'unwindFromAck',
    'appendBeforeUnwind',
    'openUnwinds',
    'persistUndone',
  ),
  proof(
    {
      name: 'a wipe',
      blocks: wiping,
      upstreamBlocks: ['1', '2'],
      readers: [reads(['canonical', 1], ['a', 'x', 'y'])],
    },
    'wipe',
  ),
  proof(
    {
      name: 'pruned history',
      blocks: wiping,
      upstreamBlocks: ['1', '2'],
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
      upstreamBlocks: ['1', '2'],
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
      upstreamBlocks: ['1'],
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
      upstreamBlocks: ['1A', '2A', '1B'],
      hasCache: true,
      readers: [reads(['canonical'], ['y'], 2)],
    },
    'cacheUnwinds',
    'cacheVoid',
  ),
  wide({
    name: 'two blocks from the feed',
    blocks: [block('1', 1, 'g', 'x', 'y'), withTransaction(block('2', 2, '1', 'y', 'x'), 1)],
    feed: [
      ['1', 0],
      ['1', 1],
      ['2', 0],
      ['2', 1],
    ],
    upstreamBlocks: ['1', '2'],
    pages: 3,
    readers: [
      reads(
        ['pending', 'complete', 'canonical', 1, { block: '1', index: 0 }, { block: '2', index: 0 }],
        ['x', 'y', 'transaction', '#1', 'header'],
      ),
    ],
  }),
  wide({
    name: 'the persist pass frees pages under two readers',
    blocks: three,
    upstreamBlocks: ['1', '2', '3'],
    pages: 2,
    readers: [reads(['canonical'], ['x']), reads(['canonical'], ['header'])],
  }),
  wide({
    name: 'the persist pass frees pages under a view passed to a worker',
    blocks: three,
    upstreamBlocks: ['1', '2', '3'],
    pages: 2,
    readers: [
      reads(['canonical'], ['x']),
      { ...reads(['canonical'], ['header']), isAdopter: true },
    ],
  }),
  wide({
    name: 'a reorg of a block from the feed',
    blocks: fork,
    feed: forkFeed,
    upstreamBlocks: ['1', '2B'],
    pages: 3,
    readers: [reads(['pending', 'canonical', 1], ['x', 'y', 'transaction', '#1', '#2', 'header'])],
  }),
  wide({
    name: 'a deep reorg while the feed continues',
    blocks: longFork,
    feed: [...forkFeed, ['3B', 0]],
    upstreamBlocks: ['1', '2A', '2B', '3B'],
    pages: 5,
    readers: [reads(['pending', 'canonical'], ['x', 'transaction', '#2'])],
  }),
  wide({
    name: 'a cache while the feed continues',
    blocks: three,
    feed: threeFeed,
    upstreamBlocks: ['1', '2', '3'],
    hasCache: true,
    readers: [reads(['pending', 'canonical'], ['x'], 2)],
  }),
]
