/**
 * The possible steps of a history, as data: short lists that fast-check makes, shrinks and prints.
 */
import fc from 'fast-check'

/**
 * Each step is [name, count, seed]. The count has another meaning for each step:
 * | step | count |
 * |---|---|
 * | payload | max. transactions of index 0 on the complete head; drops a payload in progress |
 * | flashblock | max. transactions |
 * | seal | –; ends the block in progress and requests its root |
 * | flush | – |
 * | ahead | complete blocks that the source has not decided |
 * | canonical | complete blocks that the source decides |
 * | grow | blocks with flashblocks, sealed and decided, while the persistence thread works |
 * | replace | –; adds a canonical block that differs from the complete one |
 * | reorg | blocks to go back; canonical continues from there |
 * | persistence | requests and slices |
 * | answers | responses of the persistence thread that reach the writer |
 * | settle | –; runs until no thread has anything to do |
 * | lease, adopt, release | – |
 * | ended | row of the thread that ends; the row is cleared, and another thread uses it |
 * | die | commits until the process dies in the middle of its work |
 * | restart | –; starts another process over the same data |
 * | reopen | –; restarts with a closed and reopened directory |
 */
export const STEP_NAMES = [
  'payload',
  'flashblock',
  'seal',
  'flush',
  'ahead',
  'canonical',
  'grow',
  'replace',
  'reorg',
  'persistence',
  'answers',
  'settle',
  'lease',
  'adopt',
  'release',
  'ended',
  'die',
  'restart',
  'reopen',
] as const
export type StepName = (typeof STEP_NAMES)[number]
export type Step = readonly [name: StepName, count: number, seed: number]

export type Setup = {
  /** Pages of 2 KiB. The smallest arena has memory for a few blocks. */
  readonly pages: number
  readonly foldDepth: number
  /** Blocks that may be appended beyond the fold depth before canonical stops. */
  readonly backlog: number
  /** Persisted blocks that the writer and the persistence thread can unwind. */
  readonly undoBlocks: number
  /** undefined: history is never pruned. */
  readonly historyBlocks: number | undefined
  /** Flat values in one commit of a persist pass. */
  readonly rowsInPiece: number
  /** Entries of each thread's cache of flat values. */
  readonly cacheEntries: number
  /** Blocks that exist before the first step. */
  readonly blocks: number
}
export type History = { readonly setup: Setup; readonly steps: readonly Step[] }

const setup: fc.Arbitrary<Setup> = fc.record({
  pages: fc.constantFrom(24, 24, 40, 400),
  foldDepth: fc.constantFrom(0, 1, 2, 4, 8, 24),
  backlog: fc.constantFrom(2, 4, 12),
  undoBlocks: fc.constantFrom(4, 12, 44, 44),
  historyBlocks: fc.constantFrom(undefined, 1, 16),
  rowsInPiece: fc.constantFrom(1, 1, 3, 256),
  cacheEntries: fc.constantFrom(8, 64),
  blocks: often(fc.integer({ min: 0, max: 10 }), 3, fc.integer({ min: 44, max: 60 })),
})

const of = (name: StepName, weight: number, count: fc.Arbitrary<number> = fc.constant(0)) => ({
  weight,
  arbitrary: fc.tuple(fc.constant(name), count, fc.nat(0xffff)),
})
/** Takes `usual` `times` times as often as `rare`. */
function often(usual: fc.Arbitrary<number>, times: number, rare: fc.Arbitrary<number>) {
  return fc.oneof({ weight: times, arbitrary: usual }, { weight: 1, arbitrary: rare })
}

const step: fc.Arbitrary<Step> = fc.oneof(
  of('payload', 8, fc.nat(3)),
  of('flashblock', 8, fc.nat(3)),
  of('seal', 6),
  of('flush', 2),
  of('ahead', 3, fc.integer({ min: 1, max: 5 })),
  of('canonical', 8, fc.integer({ min: 1, max: 3 })),
  of('grow', 4, often(fc.integer({ min: 1, max: 4 }), 4, fc.integer({ min: 5, max: 14 }))),
  of('replace', 3),
  of('reorg', 4, often(fc.integer({ min: 1, max: 8 }), 2, fc.integer({ min: 9, max: 40 }))),
  of('persistence', 16, often(fc.integer({ min: 1, max: 4 }), 2, fc.integer({ min: 5, max: 60 }))),
  of('answers', 8, fc.integer({ min: 1, max: 3 })),
  of('settle', 3),
  of('lease', 8),
  of('adopt', 4),
  of('release', 5),
  of('ended', 1, fc.integer({ min: 2, max: 3 })),
  of('die', 2, often(fc.nat(8), 3, fc.nat(120))),
  of('restart', 1),
)
const reopened: fc.Arbitrary<Step> = fc.oneof(
  { weight: 400, arbitrary: step },
  { ...of('reopen', 1), weight: 1 },
)

export const history: fc.Arbitrary<History> = fc.record({
  setup,
  steps: fc.array(reopened, { minLength: 1, maxLength: 90, size: 'max' }),
})
