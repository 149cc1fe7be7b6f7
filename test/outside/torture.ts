/**
 * Threads that read the shared views while these are published, replaced, appended, folded, unfolded, pruned and recycled: no view is
 * ever torn or mixed; and with any one rule of the views switched off, some is.
 * Usage: node test/outside/torture.ts [--short] [--seconds N] [--seed S] [--rules | --rule NAME]
 */

import { checks } from '../kit/checks.ts'
import type { Edit } from '../kit/edits.ts'
import { mulberry32, runOptions } from '../kit/run-options.ts'
import type { Counts } from '../torture/counters.ts'
import { STAYED_FULL } from '../torture/counters.ts'
import type { TortureResult } from '../torture/run.ts'
import { HELD, MINIMUM, POISON, type Scenario, scenarioOf, USUAL } from '../torture/scenarios.ts'
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

/** What a minute of reading must have seen at least, other times in proportion: a fraction of what two cores see. */
const LEAST: Partial<Counts> = {
  reads: 20_000,
  records: 300,
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
  foldsBetween: 1_000,
  cacheHits: 1_000,
  voids: 100,
  leases: 500,
  adopted: 100,
  publishes: 500,
  folds: 100,
  unfolds: 10,
  flushes: 10,
  secondPayloads: 10,
  shallowReorgs: 10,
  deepReorgs: 10,
  recycledPages: 40,
  prunedBlocks: 60,
  kills: 8,
}
/** But nothing fewer times than this, however short the run. */
const FEWEST = 3
/** Rules that a short run switches off; those that may take a minute to show are left to the full one. */
const SAMPLE = 4
const SLOW = ['coverChecked']
/** Processor time, within which a rule that is off must show, and without a fault when it is on. */
const RULE_CPU_SECONDS = 60
const CONTROL_CPU_SECONDS = 6
/** Processor time of a part, for each second that it shall run: it goes on until it has seen enough. */
const CPU_PER_SECOND = 6
/** And in wall time, so that a run ends with what it has seen where a machine gives it hardly any processor. */
const WALL_PER_SECOND = 10
const WALL_PER_CPU_SECOND = 10

/** The parts of a run: how long each is, of the time that is asked for, and what only they must have seen. */
const PARTS: readonly {
  readonly name: string
  readonly share: number
  readonly scenario: Scenario
  readonly edits: readonly Edit[]
  readonly least: Partial<Counts>
}[] = [
  { name: '8 MiB', share: 0.6, scenario: USUAL, edits: [], least: {} },
  {
    name: 'flashblocks held for many blocks',
    share: 0.15,
    scenario: HELD,
    edits: [],
    least: { flashblocks: 200 },
  },
  {
    name: 'the smallest arena',
    share: 0.2,
    scenario: MINIMUM,
    edits: [],
    least: { full: 60, cancelled: 60, recycledPages: 100 },
  },
  {
    name: 'free pages filled with ones',
    share: 0.2,
    scenario: MINIMUM,
    edits: [POISON],
    least: { recycledPages: 100 },
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

async function torturePart({ name, share, scenario, edits, least }: (typeof PARTS)[number]) {
  const seconds = options.seconds * share
  const wanted: Partial<Counts> = Object.fromEntries(
    Object.entries({ ...LEAST, ...least }).map(([what, count]) => [
      what,
      Math.max(FEWEST, Math.ceil((count * seconds) / 60)),
    ]),
  )
  const job = {
    options: { ...scenario, seed: nextSeed() },
    seconds,
    mostCpuSeconds: CPU_PER_SECOND * seconds,
    mostSeconds: WALL_PER_SECOND * seconds,
    least: wanted,
  }
  const result = await startRun(job, edits)
  if ('counts' in result) report(name, result, job.least)
  else check(`${name}: no view is torn or mixed`, false, faultOf(result))
}

/** One line for each property, with what it was seen on. */
function report(name: string, result: TortureResult, least: Partial<Counts>): void {
  const { counts, fault } = result
  const line = (what: string, isRight: boolean, names: readonly (keyof Counts)[]) => {
    const isSeen = names.every((each) => counts[each] >= (least[each] ?? 0))
    const seen = names.map((each) => `${counts[each]} ${words(each)}`).join(', ')
    check(`${name}: ${what}`, isRight && isSeen, isSeen ? seen : `${seen}: too little`)
  }
  const isRight = fault === undefined
  check(`${name}: no view is torn or mixed`, isRight, fault ?? `${Math.round(result.seconds)} s`)
  line('state', isRight, ['reads', 'records', 'accounts', 'slots', 'codes', 'listings', 'history'])
  line('blocks', isRight, ['blocks', 'transactions', 'receipts', 'logs', 'numbers', 'hashes'])
  line('older indices while entries are added', isRight, ['olderIndices', 'prefixes', 'leases'])
  line('flashblocks by number and index', isRight, ['flashblocks', 'flashblocksGone'])
  line('folds between two reads', isRight, ['folds', 'foldsBetween', 'publishes', 'appends'])
  line('what replaces a block', isRight, [
    ...(['flushes', 'secondPayloads', 'shallowReorgs', 'deepReorgs', 'unfolds', 'voids'] as const),
  ])
  line('a cached value is the fresh one', isRight, ['cacheHits'])
  line('a lent record is never refused', isRight, ['adopted'])
  line('pages go round', isRight, ['recycledPages', 'full', 'cancelled'])
  check(`${name}: no page is lost`, result.lost === undefined, result.lost)
  line('history is pruned', isRight, ['prunedBlocks'])
  line('readers are killed in the middle of a read', isRight, ['kills'])
}

/** The product without the rule must fail; with its waits alone it must not. */
async function switchOff({ name, edits, race = [], isStarving }: Rule): Promise<void> {
  const scenario = scenarioOf(name)
  const job = (mostCpuSeconds: number) => ({
    options: { ...scenario, seed: nextSeed() },
    seconds: Number.MAX_VALUE,
    mostCpuSeconds,
    mostSeconds: WALL_PER_CPU_SECOND * mostCpuSeconds,
    least: {},
  })
  const result = await startRun(job(RULE_CPU_SECONDS), [POISON, ...edits, ...race])
  const fault = faultOf(result)
  const reads = 'counts' in result ? `after ${result.counts.reads} reads by ` : ''
  const isFull = fault?.includes(STAYED_FULL) === true
  const isCaught = fault !== undefined && !('crash' in result) && isFull === (isStarving === true)
  check(
    `rule ${name} switched off`,
    isCaught,
    `${reads}${fault ?? 'nobody'}`.split('\n')[0]!.slice(0, 240),
  )
  if ((race.length === 0 && isStarving !== true) || options.isShort) return
  const control = await startRun(job(CONTROL_CPU_SECONDS), [POISON, ...race])
  check(`rule ${name} on, with the same waits`, faultOf(control) === undefined, faultOf(control))
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
