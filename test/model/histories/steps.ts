/** What may happen in a history, as data: short lists that fast-check makes, shrinks and prints. */
import fc from 'fast-check'

/**
 * Each step is [name, count, seed]; what the count means:
 * | step | count |
 * |---|---|
 * | payload | transactions, at most, of index 0 on the complete head; a payload in progress is dropped |
 * | flashblock | transactions, at most |
 * | seal | – the block in progress is all there; its root is asked for |
 * | flush | – |
 * | ahead | blocks, complete and not decided |
 * | canonical | complete blocks that their source decides |
 * | grow | blocks, each with flashblocks, sealed and decided, the keeper folding beside |
 * | replace | – a canonical block other than the complete one |
 * | reorg | blocks to go back; canonical goes on from there |
 * | keeper | requests and slices |
 * | answers | answers of the keeper that reach the writer |
 * | settle | – until nobody has anything to do |
 * | lease, adopt, release | – |
 * | ended | thread that ended; its row is cleared, another one takes its place |
 * | die | commits until the process dies in the middle of what it does |
 * | restart | – another process over the same data |
 * | reopen | – the same, and the directory is closed and opened |
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
  'keeper',
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
  /** Pages of 2 KiB. The smallest hold a few blocks. */
  readonly pages: number
  readonly foldDepth: number
  /** Appended blocks beyond those at which canonical stops. */
  readonly backlog: number
  /** Folded blocks that can be unfolded; of the writer and the keeper. */
  readonly undoBlocks: number
  /** undefined: history is never pruned. */
  readonly historyBlocks: number | undefined
  /** Flat values in one commit of a fold. */
  readonly rowsInPiece: number
  /** Of each thread's cache of flat values. */
  readonly cacheEntries: number
  /** Blocks that are there before the first step. */
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
/** The first `times` times as often as the other. */
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
  of('keeper', 16, often(fc.integer({ min: 1, max: 4 }), 2, fc.integer({ min: 5, max: 60 }))),
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
