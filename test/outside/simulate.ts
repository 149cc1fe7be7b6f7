/**
 * The follower runs under random histories: feeds with gaps, copies and lies, upstreams that lag,
 * hang and lie, reorgs, kills. One thread and virtual time make each history repeatable from its
 * seed. `--mutants`: with each rule switched off, some history must fail.
 * Usage: node test/outside/simulate.ts [--seeds N] [--from S] [--replay SEED [--trace]] [--mutants
 * | --mutant NAME]
 */
import { spawn } from 'node:child_process'
import { parseArgs } from 'node:util'
import { checks } from '../kit/checks.ts'
import { editedEnv, editedExecArgv } from '../kit/edits.ts'
import { History } from './simulate/history.ts'
import { MUTANTS, type Mutant } from './simulate/mutants.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    from: { type: 'string', default: '1' },
    replay: { type: 'string' },
    trace: { type: 'boolean', default: false },
    untilFailure: { type: 'boolean', default: false },
    mutants: { type: 'boolean', default: false },
    mutant: { type: 'string' },
  },
})
const first = numberOf('--from', values.replay ?? values.from)
/** A rule that is off must show within this many histories. */
const MUTANT_SEEDS = 1_000
/** This many histories must have met all these events. */
const MET_SEEDS = 100
const MET: readonly string[] = [
  ...(['feed_gap', 'feed_early', 'feed_duplicate', 'feed_second_payload', 'feed_held'] as const),
  ...([
    'refused',
    'refused for memory',
    'unfold',
    'promise_broken',
    'reconcile_replaced',
    'lower pending',
  ] as const),
  ...([
    'reads of leased views',
    'sealed_completed_flashblocks',
    'killed',
    'resync while it runs',
  ] as const),
  ...(['promises kept', 'promises reordered', 'promises dropped', 'promises open'] as const),
  ...(['promises for secondPayload', 'promises for reorg'] as const),
  ...(['enriched reads', 'enriched removed'] as const),
  ...(['poll head', 'poll failed', 'poll foreign', 'fetch blocks', 'fetch failed'] as const),
  ...(['ask hash', 'ask failed', 'ask foreign', 'leaves the chain'] as const),
  ...(['permanent forks', 'flashblocks read', 'other flashblocks noticed'] as const),
  'refunds_restated',
]

if (values.mutants || values.mutant !== undefined) await runMutants()
else {
  const isReplay = values.replay !== undefined
  await runSeeds(isReplay ? 1 : numberOf('--seeds', values.seeds ?? '200'))
}

async function runSeeds(count: number): Promise<void> {
  const seen = new Map<string, number>()
  const startedMs = performance.now()
  let passed = 0
  let failed = 0
  for (let seed = first; seed < first + count; seed++) {
    const failure = await failureOf(seed, seen)
    if (failure === undefined) passed++
    else {
      failed++
      console.log(`FAIL seed ${seed}: ${failure}`)
      console.log(`     npm run -s simulate -- --replay ${seed}`)
      if (values.untilFailure) break
    }
  }
  const all = [...seen].toSorted(([one], [other]) => one.localeCompare(other))
  console.log(all.map(([what, by]) => `${what} ${by}`).join(', '))
  const missed = count < MET_SEEDS ? [] : MET.filter((what) => !seen.has(what))
  if (missed.length > 0) console.log(`FAIL no history has met: ${missed.join(', ')}`)
  console.log(
    `${passed + failed} seeds in ${Math.round((performance.now() - startedMs) / 1_000)} s`,
  )
  failed += missed.length
  console.log(`simulate\n${passed} passed, ${failed} failed, 0 skipped`)
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1
}

/** Runs a history, adds up the events that it met, and gives its failure. */
async function failureOf(seed: number, seen: Map<string, number>): Promise<string | undefined> {
  const history = new History(seed, values.trace ? console.log : undefined)
  try {
    await history.run()
    return undefined
  } catch (error) {
    return String(error instanceof Error ? error.stack : error)
  } finally {
    for (const [what, by] of history.seen) seen.set(what, (seen.get(what) ?? 0) + by)
  }
}

async function runMutants(): Promise<void> {
  const { check, close } = checks('simulate: rules switched off')
  const chosen = MUTANTS.filter(({ name }) => [undefined, name].includes(values.mutant))
  for (const mutant of chosen) {
    const { text, code } = await runMutant(mutant)
    const found = /^FAIL seed .*$/m.exec(text)?.[0]
    check(`${mutant.name}: ${mutant.rule}`, code === 1 && found !== undefined, found ?? text)
  }
  close()
}

/** Runs the same histories with a test build. */
function runMutant({ edits }: Mutant): Promise<{ readonly text: string; readonly code: unknown }> {
  const seeds = values.seeds ?? String(MUTANT_SEEDS)
  const own = [import.meta.filename, '--untilFailure', '--from', String(first), '--seeds', seeds]
  const child = spawn(process.execPath, [...editedExecArgv, ...own], {
    env: editedEnv(edits),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { promise, resolve, reject } = Promise.withResolvers<{ text: string; code: unknown }>()
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes) => {
      text += String(bytes)
    })
  child.once('error', reject)
  child.once('close', (code, signal) => resolve({ text, code: code ?? signal }))
  return promise
}

function numberOf(flag: string, text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 0)
    throw new Error(`${flag}: expected a whole number, got ${JSON.stringify(text)}`)
  return number
}
