/** Kinds of runs: the usual one, the smallest arena, and those in which a rule that is off shows soonest. */
import { viewMemory } from '../../engine/views/memory.ts'
import type { Edit } from '../kit/edits.ts'
import type { Habits } from './driver.ts'
import type { TortureOptions } from './options.ts'
import type { SessionHabits } from './sessions.ts'

export type Scenario = Omit<TortureOptions, 'seed'>

const DRIVER: Habits = {
  secondPayload: 40,
  flush: 20,
  shallowReorg: 20,
  deepReorg: 12,
  dropAll: 8,
  rest: 4,
}
const READER: SessionHabits = { leases: 5, longestMs: 10_000, foldPaced: 35, chainShare: 0.3 }

export const USUAL: Scenario = {
  bytes: 8 * 2 ** 20,
  pageBytes: 4096,
  payloadBytes: 100_000,
  largeIn: 12,
  // Answers of the keeper are published as well: about 50 records a second.
  stepsPerSecond: 45,
  foldDepth: 0,
  undoWindow: 16,
  historyBlocks: 24,
  cacheEntries: 256,
  graceSeconds: 20,
  driver: DRIVER,
  readers: READER,
  front: { ...READER, leases: 3 },
  loans: 3,
  heldLoans: 0.7,
  killEveryMs: 2_500,
}

const SMALL_PAYLOAD = 20_000
/** Five flashblocks of three such transactions. */
const LARGEST_BLOCK = 15 * SMALL_PAYLOAD
const GAS_PER_BYTE = 8

/** The least memory with which a node would start whose blocks are as large as these. */
export const MINIMUM: Scenario = {
  ...USUAL,
  bytes: viewMemory({
    gasLimit: LARGEST_BLOCK * GAS_PER_BYTE,
    blockTimeMs: 1000,
    deadlineMs: 1000,
    foldDepth: USUAL.foldDepth,
  }).minimum,
  // Blocks come near to that, so that leases fill it.
  payloadBytes: SMALL_PAYLOAD,
  largeIn: 1,
  stepsPerSecond: 90,
}

/** Folds stay far behind, so that flashblocks of many blocks can be asked for; all else is as usual. */
export const HELD: Scenario = { ...USUAL, bytes: 32 * 2 ** 20, foldDepth: 16 }

/** Pages that are given back are filled with ones: whoever still reads them sees it at once. */
export const POISON: Edit = {
  file: 'engine/views/pages.ts',
  find: '      if (each.record <= unreadBelow) free.push(...each.pages)\n',
  replace: `      if (each.record <= unreadBelow) {
        for (const page of each.pages) words.fill(-1, page, page + pageWords)
        free.push(...each.pages)
      }
`,
}

const QUICK_READER: SessionHabits = { leases: 5, longestMs: 1500, foldPaced: 25, chainShare: 0.3 }
const QUICK: Scenario = {
  ...USUAL,
  bytes: 2 ** 20,
  pageBytes: 2048,
  payloadBytes: 3_000,
  stepsPerSecond: 150,
  graceSeconds: 10,
  driver: {
    secondPayload: 80,
    flush: 30,
    shallowReorg: 40,
    deepReorg: 20,
    dropAll: 15,
    rest: 25,
  },
  readers: QUICK_READER,
  front: { ...QUICK_READER, leases: 3 },
  killEveryMs: 60_000,
}
/** Few pages: they go round quickly. */
const CROWDED: Scenario = { ...QUICK, bytes: 2 ** 18, payloadBytes: 1_000 }
/** And leases so few and short that the floor is close behind the head. */
const BRIEF_READER: SessionHabits = { leases: 1, longestMs: 30, foldPaced: 0, chainShare: 0.2 }
const BRIEF: Scenario = { ...CROWDED, readers: BRIEF_READER, front: BRIEF_READER }
/** Readers read only what the front lends them. */
const LENT: Scenario = {
  ...BRIEF,
  loans: 1,
  stepsPerSecond: 300,
  driver: { ...QUICK.driver, secondPayload: 300, flush: 100 },
  readers: { ...BRIEF_READER, leases: 0, longestMs: 25 },
  front: { ...BRIEF_READER, leases: 0, longestMs: 10 },
}
/** Reorgs below the base, and readers that need the database seldom. */
const CACHED: Scenario = {
  ...QUICK,
  cacheEntries: 4096,
  driver: { ...QUICK.driver, deepReorg: 100 },
  readers: { ...QUICK_READER, chainShare: 0, foldPaced: 40 },
}
const BY_RULE: Readonly<Record<string, Scenario>> = {
  stopAtBase: CROWDED,
  recheck: BRIEF,
  rescan: BRIEF,
  covered: LENT,
  frontFirst: LENT,
  oldestRow: CROWDED,
  headIsBase: CROWDED,
  cacheVoid: CACHED,
  unfoldLast: CACHED,
  // The front leases again what it has just lent and let go.
  coverChecked: { ...LENT, heldLoans: 0, front: { ...LENT.front, leases: 1, longestMs: 3 } },
  prefixOfBase: { ...QUICK, driver: { ...QUICK.driver, rest: 100 } },
  clearAfterExit: { ...CROWDED, killEveryMs: 400 },
  clearDead: { ...CROWDED, killEveryMs: 5_000, graceSeconds: 1 },
}

/** Where the lack of a rule shows. */
export const scenarioOf = (rule: string): Scenario => BY_RULE[rule] ?? QUICK
