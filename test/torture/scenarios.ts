/**
 * Kinds of runs: the usual one, the smallest arena, and for each rule the run that fails soonest
 * without it.
 */
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
  idle: 4,
}
const READER: SessionHabits = { leases: 5, longestMs: 10_000, persistPaced: 35, chainShare: 0.3 }

export const USUAL: Scenario = {
  bytes: 8 * 2 ** 20,
  pageBytes: 4096,
  payloadBytes: 100_000,
  largeIn: 12,
  // Responses of the persistence thread are published too, which makes about 50 snapshots a second.
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
  pinnedLoans: 0.7,
  killEveryMs: 2_500,
}

const SMALL_PAYLOAD = 20_000
/** Five flashblocks, each with three transactions of that size. */
const LARGEST_BLOCK = 15 * SMALL_PAYLOAD
const GAS_PER_BYTE = 8

/** Minimum memory with which a node starts for blocks of this size. */
export const MINIMUM: Scenario = {
  ...USUAL,
  bytes: viewMemory({
    gasLimit: LARGEST_BLOCK * GAS_PER_BYTE,
    blockTimeMs: 1000,
    deadlineMs: 1000,
    foldDepth: USUAL.foldDepth,
  }).minimum,
  // Blocks come near the largest size, so that leases fill the arena.
  payloadBytes: SMALL_PAYLOAD,
  largeIn: 1,
  stepsPerSecond: 90,
}

/**
 * Persistence stays far behind, so that flashblocks of many blocks can be requested. All else is as
 * usual.
 */
export const PINNED: Scenario = { ...USUAL, bytes: 32 * 2 ** 20, foldDepth: 16 }

/** Recycled pages are filled with ones, so that a late reader notices at once. */
export const POISON: Edit = {
  file: 'engine/views/pages.ts',
  find: '      if (each.snapshot <= unreadBelow) free.push(...each.pages)\n',
  replace: `      if (each.snapshot <= unreadBelow) {
        for (const page of each.pages) words.fill(-1, page, page + pageWords)
        free.push(...each.pages)
      }
`,
}

const QUICK_READER: SessionHabits = {
  leases: 5,
  longestMs: 1500,
  persistPaced: 25,
  chainShare: 0.3,
}
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
    idle: 25,
  },
  readers: QUICK_READER,
  front: { ...QUICK_READER, leases: 3 },
  killEveryMs: 60_000,
}
/** The few pages are soon used again. */
const CROWDED: Scenario = { ...QUICK, bytes: 2 ** 18, payloadBytes: 1_000 }
/** Leases are so few and short that the floor is close to the head. */
const BRIEF_READER: SessionHabits = { leases: 1, longestMs: 30, persistPaced: 0, chainShare: 0.2 }
const BRIEF: Scenario = { ...CROWDED, readers: BRIEF_READER, front: BRIEF_READER }
/** Readers use only the snapshots that the front lends. */
const LENT: Scenario = {
  ...BRIEF,
  loans: 1,
  stepsPerSecond: 300,
  driver: { ...QUICK.driver, secondPayload: 300, flush: 100 },
  readers: { ...BRIEF_READER, leases: 0, longestMs: 25 },
  front: { ...BRIEF_READER, leases: 0, longestMs: 10 },
}
/** Reorgs go below the base, and readers rarely need the database. */
const CACHED: Scenario = {
  ...QUICK,
  cacheEntries: 4096,
  driver: { ...QUICK.driver, deepReorg: 100 },
  readers: { ...QUICK_READER, chainShare: 0, persistPaced: 40 },
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
  unwindLast: CACHED,
  // The front leases again at once after it has released a loan.
  coverChecked: { ...LENT, pinnedLoans: 0, front: { ...LENT.front, leases: 1, longestMs: 3 } },
  prefixOfBase: { ...QUICK, driver: { ...QUICK.driver, idle: 100 } },
  clearAfterExit: { ...CROWDED, killEveryMs: 400 },
  clearDead: { ...CROWDED, killEveryMs: 5_000, graceSeconds: 1 },
}

/** Returns the scenario in which the lack of a rule shows. */
export const scenarioOf = (rule: string): Scenario => BY_RULE[rule] ?? QUICK
