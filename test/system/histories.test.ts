/** Random histories of the real state machine against plain maps; `npm run model` runs many more. */
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { Counts } from '../model/histories/counts.ts'
import { Directory } from '../model/histories/directory.ts'
import { runHistory } from '../model/histories/run.ts'
import { type History, history, type Setup, type Step } from '../model/histories/steps.ts'

const directory = new Directory()
afterAll(() => directory.remove())

/** Histories that once went wrong, as small as they became. */
const found: readonly (readonly [what: string, setup: Partial<Setup>, steps: readonly Step[]])[] = [
  [
    'a second branch on a block that the keeper has given another id',
    { undoBlocks: 44, blocks: 3 },
    [
      ['settle', 0, 1],
      ['reorg', 40, 2],
      ['settle', 0, 3],
      ['reorg', 40, 4],
    ],
  ],
  [
    'reorg after reorg, down to where nothing can be unfolded any more',
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
    'a void view and the hash of a dropped block that is deleted',
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
    'a void view and its own base, dropped and deleted',
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
    'the prefix of a block that came from the store, in a view that outlives its rows there',
    { backlog: 2, undoBlocks: 4, blocks: 44 },
    [
      ['settle', 0, 0],
      ['die', 1, 18698],
      ['grow', 2, 49433],
      ['reorg', 1, 20989],
      ['lease', 0, 10434],
      ['keeper', 27, 16557],
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

test.each(found)('%s', async (_, special, steps) => {
  const one: History = { setup: { ...setup, ...special }, steps }
  await runHistory(one, { directory, counts: new Counts(), check: 'all' })
})

test('every answer of every view is that of plain maps, whatever happens', async () => {
  const counts = new Counts()
  await fc.assert(
    fc.asyncProperty(history, (each) => runHistory(each, { directory, counts, check: 'some' })),
    { numRuns: 40 },
  )
  const seen = ['states', 'folded', 'refused: no pages', 'reorg below the fold, 1 to 7'] as const
  expect(seen.filter((what) => counts.get(what) === 0)).toEqual([])
})
