/**
 * Threads read the shared views while these are published, replaced, appended, persisted, unwound,
 * pruned and recycled. No view may ever be torn or mixed; with any one rule switched off, some view
 * must be.
 * Usage: node test/outside/torture.ts [--short] [--seconds N] [--seed S] [--rules | --rule NAME]
 */

import { checks } from '../kit/checks.ts'
import type { Edit } from '../kit/edits.ts'
import { mulberry32, runOptions } from '../kit/run-options.ts'
import type { Counts } from '../torture/counters.ts'
import { STAYED_FULL } from '../torture/counters.ts'
import type { TortureResult } from '../torture/run.ts'
import { MINIMUM, PINNED, POISON, type Scenario, scenarioOf, USUAL } from '../torture/scenarios.ts'
import { type RunEnd, startRun } from '../torture/start.ts'
import type { Rule } from './rule.ts'
import { RULES } from './rules.ts'

const options = runOptions(
  'torture',
  { full: 600, short: 60 },
  { rules: { type: 'boolean' }, rule: { type: 'string' } },
)
const { check, close } = checks('torture')
const random = mulberry32(options.seed)
const nextSeed = () => Math.floor(random() * 2 ** 31)

/**
 * A minute of reading must have at least these counts, other times in proportion. The counts are a
 * fraction of those on two cores.
 */
const MIN: Partial<Counts> = {
  reads: 20_000,
  snapshots: 300,
  accounts: 5_000,
  slots: 5_000,
  codes: 300,
  blocks: 1_000,
  transactions: 1_000,
  receipts: 3_000,
  logs: 300,
  numbers: 300,
  hashes: 1_000,
  prefixes: 100,
  flashblocks: 60,
  flashblocksGone: 30,
  listings: 30,
  history: 1_000,
  olderIndices: 2_000,
  persistsBetween: 1_000,
  cacheHits: 1_000,
  voids: 100,
  leases: 500,
  adopted: 100,
  publishes: 500,
  persists: 100,
  unwinds: 10,
  flushes: 10,
  secondPayloads: 10,
  shallowReorgs: 10,
  deepReorgs: 10,
  recycledPages: 40,
  prunedBlocks: 60,
  kills: 8,
}
/** No count may be below this number, however short the run is. */
const FEWEST = 3
/**
 * A short run switches off this many rules; rules that may take a minute to show are left to the
 * full run.
 */
const SAMPLE = 4
const SLOW = ['coverChecked']
/**
 * A rule that is off must show within the first processor time. A rule that is on must pass the
 * second one without a fault.
 */
const RULE_CPU_SECONDS = 60
const CONTROL_CPU_SECONDS = 6
/**
 * The processor time of a part, for each second of its length. The part goes on until its counts
 * are reached.
 */
const CPU_PER_SECOND = 6
/**
 * The maximum wall time. A run ends with its counts on a machine that gives it hardly any processor
 * time.
 */
const WALL_PER_SECOND = 10
const WALL_PER_CPU_SECOND = 10

/** Each part of a run has a share of the time, and minimum counts of its own. */
const PARTS: readonly {
  readonly name: string
  readonly share: number
  readonly scenario: Scenario
  readonly edits: readonly Edit[]
  readonly min: Partial<Counts>
}[] = [
  { name: '8 MiB', share: 0.6, scenario: USUAL, edits: [], min: {} },
  {
    name: 'old flashblocks under a lease for many blocks',
    share: 0.15,
    scenario: PINNED,
    edits: [],
    min: { flashblocks: 200 },
  },
  {
    name: 'the smallest arena',
    share: 0.2,
    scenario: MINIMUM,
    edits: [],
    min: { full: 60, cancelled: 60, recycledPages: 100 },
  },
  {
    name: 'free pages filled with ones',
    share: 0.2,
    scenario: MINIMUM,
    edits: [POISON],
    min: { recycledPages: 100 },
  },
]

const torturable = RULES.filter(({ expect }) => expect.includes('torture'))
if (options.own['rule'] !== undefined) await switchOff(findRule(String(options.own['rule'])))
else {
  if (options.own['rules'] !== true) for (const part of PARTS) await torturePart(part)
  const quick = torturable.filter(({ name }) => !SLOW.includes(name))
  const chosen = options.isShort ? sample(quick, SAMPLE) : torturable
  for (const rule of chosen) await switchOff(rule)
}
close()

async function torturePart({ name, share, scenario, edits, min }: (typeof PARTS)[number]) {
  const seconds = options.seconds * share
  const wanted: Partial<Counts> = Object.fromEntries(
    Object.entries({ ...MIN, ...min }).map(([what, count]) => [
      what,
      Math.max(FEWEST, Math.ceil((count * seconds) / 60)),
    ]),
  )
  const job = {
    options: { ...scenario, seed: nextSeed() },
    seconds,
    maxCpuSeconds: CPU_PER_SECOND * seconds,
    maxSeconds: WALL_PER_SECOND * seconds,
    min: wanted,
  }
  const result = await startRun(job, edits)
  if ('counts' in result) report(name, result, job.min)
  else check(`${name}: no view is torn or mixed`, false, faultOf(result))
}

/** Prints one line for each property, with the counts that support it. */
function report(name: string, result: TortureResult, min: Partial<Counts>): void {
  const { counts, fault } = result
  const line = (what: string, isRight: boolean, names: readonly (keyof Counts)[]) => {
    const isSeen = names.every((each) => counts[each] >= (min[each] ?? 0))
    const seen = names.map((each) => `${counts[each]} ${words(each)}`).join(', ')
    check(`${name}: ${what}`, isRight && isSeen, isSeen ? seen : `${seen}: too little`)
  }
  const isRight = fault === undefined
  check(`${name}: no view is torn or mixed`, isRight, fault ?? `${Math.round(result.seconds)} s`)
  line('state', isRight, [
    'reads',
    'snapshots',
    'accounts',
    'slots',
    'codes',
    'listings',
    'history',
  ])
  line('blocks', isRight, ['blocks', 'transactions', 'receipts', 'logs', 'numbers', 'hashes'])
  line('reads of earlier indices while entries are added', isRight, [
    'olderIndices',
    'prefixes',
    'leases',
  ])
  line('reads of flashblocks by number and index', isRight, ['flashblocks', 'flashblocksGone'])
  line('persist passes between two reads', isRight, [
    'persists',
    'persistsBetween',
    'publishes',
    'appends',
  ])
  line('replaced blocks and unwinds', isRight, [
    ...(['flushes', 'secondPayloads', 'shallowReorgs', 'deepReorgs', 'unwinds', 'voids'] as const),
  ])
  line('every cached value is the current one', isRight, ['cacheHits'])
  line('no snapshot of a front is refused to its worker', isRight, ['adopted'])
  line('pages are recycled', isRight, ['recycledPages', 'full', 'cancelled'])
  check(`${name}: no page is lost`, result.lost === undefined, result.lost)
  line('history is pruned during reads', isRight, ['prunedBlocks'])
  line('readers are killed during a read', isRight, ['kills'])
}

/** Checks that the product without the rule fails, and that its waits alone do not make it fail. */
async function switchOff({ name, edits, race = [], isStarving }: Rule): Promise<void> {
  const scenario = scenarioOf(name)
  const job = (maxCpuSeconds: number) => ({
    options: { ...scenario, seed: nextSeed() },
    seconds: Number.MAX_VALUE,
    maxCpuSeconds,
    maxSeconds: WALL_PER_CPU_SECOND * maxCpuSeconds,
    min: {},
  })
  const result = await startRun(job(RULE_CPU_SECONDS), [POISON, ...edits, ...race])
  const fault = faultOf(result)
  const reads = 'counts' in result ? `after ${result.counts.reads} reads by ` : ''
  const isFull = fault?.includes(STAYED_FULL) === true
  const isCaught = fault !== undefined && !('crash' in result) && isFull === (isStarving === true)
  check(
    `with rule ${name} off, the run fails`,
    isCaught,
    `${reads}${fault ?? 'nobody'}`.split('\n')[0]!.slice(0, 240),
  )
  if ((race.length === 0 && isStarving !== true) || options.isShort) return
  const control = await startRun(job(CONTROL_CPU_SECONDS), [POISON, ...race])
  check(
    `with rule ${name} on and the same waits, the run does not fail`,
    faultOf(control) === undefined,
    faultOf(control),
  )
}

function faultOf(end: RunEnd): string | undefined {
  if ('counts' in end) return end.fault
  return 'crash' in end ? end.crash : 'a read without end'
}

function findRule(name: string): Rule {
  const rule = RULES.find((each) => each.name === name)
  if (rule === undefined) throw new Error(`no rule is called ${name}`)
  return rule
}

function sample<Item>(items: readonly Item[], count: number): readonly Item[] {
  const left = [...items]
  return Array.from({ length: count }, () => left.splice(Math.floor(random() * left.length), 1)[0]!)
}

function words(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}
