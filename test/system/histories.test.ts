/**
 * Compares random histories of the real state machine with plain maps. `npm run model` runs many
 * more.
 */
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { Counts } from '../model/histories/counts.ts'
import { Directory } from '../model/histories/directory.ts'
import { runHistory } from '../model/histories/run.ts'
import { type History, history, type Setup, type Step } from '../model/histories/steps.ts'

const directory = new Directory()
afterAll(() => directory.remove())

/** Histories that failed once, shrunk by fast-check. */
const found: readonly (readonly [what: string, setup: Partial<Setup>, steps: readonly Step[]])[] = [
  [
    'a second branch on a block with a new id from the persistence thread',
    { undoBlocks: 44, blocks: 3 },
    [
      ['settle', 0, 1],
      ['reorg', 40, 2],
      ['settle', 0, 3],
      ['reorg', 40, 4],
    ],
  ],
  [
    'reorgs until no block can be unwound',
    { undoBlocks: 4, blocks: 24 },
    [
      ['settle', 0, 1],
      ['reorg', 4, 2],
      ['settle', 0, 3],
      ['reorg', 4, 4],
      ['settle', 0, 5],
      ['reorg', 4, 6],
      ['settle', 0, 7],
      ['reorg', 4, 8],
      ['settle', 0, 9],
    ],
  ],
  [
    'a void view, and the deleted hash of a dropped block',
    { foldDepth: 0, backlog: 2, undoBlocks: 4, blocks: 2 },
    [
      ['reorg', 2, 17218],
      ['lease', 0, 26032],
      ['settle', 0, 23503],
      ['grow', 3, 31178],
      ['grow', 14, 32297],
    ],
  ],
  [
    'a void view, and its dropped and deleted base',
    { foldDepth: 0, backlog: 2, undoBlocks: 4, blocks: 44 },
    [
      ['adopt', 0, 10404],
      ['reorg', 4, 16710],
      ['grow', 4, 41841],
      ['settle', 0, 35808],
      ['seal', 0, 39654],
      ['canonical', 3, 53804],
      ['grow', 14, 63083],
    ],
  ],
  [
    'the prefix of a stored block, in a view that outlives its stored rows',
    { backlog: 2, undoBlocks: 4, blocks: 44 },
    [
      ['settle', 0, 0],
      ['die', 1, 18698],
      ['grow', 2, 49433],
      ['reorg', 1, 20989],
      ['lease', 0, 10434],
      ['persistence', 27, 16557],
      ['grow', 13, 22406],
    ],
  ],
]
const setup: Setup = {
  pages: 400,
  foldDepth: 1,
  backlog: 4,
  undoBlocks: 12,
  historyBlocks: undefined,
  rowsInPiece: 1,
  cacheEntries: 8,
  blocks: 4,
}

test.each(found)(
  'a history that once failed has right responses: %s',
  async (_, special, steps) => {
    const one: History = { setup: { ...setup, ...special }, steps }
    await runHistory(one, { directory, counts: new Counts(), check: 'all' })
  },
)

test('every view of a random history has the responses of plain maps', async () => {
  const counts = new Counts()
  await fc.assert(
    fc.asyncProperty(history, (each) => runHistory(each, { directory, counts, check: 'some' })),
    { numRuns: 40 },
  )
  const seen = [
    'states',
    'persisted',
    'refused: no pages',
    'reorg below the persist pass, 1 to 7',
  ] as const
  expect(seen.filter((what) => counts.get(what) === 0)).toEqual([])
})
