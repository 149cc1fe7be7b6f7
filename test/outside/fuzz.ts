/**
 * Two engines run the same random programs; a difference is shrunk and printed as a case. Programs
 * of the state tests are included where the conformance data is available.
 * Usage: npm run fuzz -- [--programs 10000] [--seed S] [--engines reference,fast:stream] [--replay
 * CASE] [--mutants [--only TEXT] [--verbose]] [--findings FILE]
 */
import { appendFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { engineNamed } from './engine-option.ts'
import type { FuzzCase } from './fuzz/case.ts'
import { hasCorpus } from './fuzz/corpus.ts'
import { differenceOf, type Pair } from './fuzz/differ.ts'
import { type Hunted, hunt } from './fuzz/hunt.ts'
import { observe } from './fuzz/observe.ts'
import { type Finding, search } from './fuzz/search.ts'

const { values } = parseArgs({
  options: {
    programs: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    engines: { type: 'string', default: 'reference,fast' },
    repeats: { type: 'string' },
    replay: { type: 'string' },
    mutants: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    verbose: { type: 'boolean', default: false },
    findings: { type: 'string' },
  },
})
const programs = count('--programs', values.programs)
const seed = count('--seed', values.seed)
/** The search gives up after this many kinds of findings. */
const MAX_KINDS = 20
const SHRINK_MS = 20_000
const now = () => performance.now()
/** One line of progress is printed for this many programs. */
const PROGRESS_PROGRAMS = 2_000

let [passed, failed, skipped] = [0, 0, 0]
if (!hasCorpus) {
  skipped++
  console.log('SKIP programs of the state tests: set CONFORMANCE_DIR')
}
if (values.mutants) await findMutants()
else if (values.replay !== undefined) await replay(values.replay)
else await fuzz(pairOf(values.engines))
console.log(`fuzz\n${passed} passed, ${failed} failed, ${skipped} skipped`)
process.exitCode = failed === 0 && passed > 0 ? 0 : 1

function count(flag: string, text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 0)
    throw new Error(`${flag}: expected a whole number, got ${JSON.stringify(text)}`)
  return number
}

/** Makes two separate engines, even of the same name, because they must not share a cache. */
function pairOf(names: string): Pair {
  const [yardstick = '', tested = yardstick] = names.split(',')
  return {
    yardstick: engineNamed(yardstick),
    tested: engineNamed(tested),
    // Repeats warm up code that is compiled only after it has run.
    repeats: count('--repeats', values.repeats ?? (tested.includes(':') ? '0' : '2')),
  }
}

async function fuzz(pair: Pair): Promise<void> {
  console.log(`fuzz: ${programs} programs, seed ${seed}, ${values.engines}`)
  const started = performance.now()
  const searching = search(pair, { seed, now, shrinkMs: SHRINK_MS })
  const kinds = new Map<string, number>()
  for (let tried = 1; tried <= programs && kinds.size < MAX_KINDS; tried++) {
    const found = await searching.next()
    if (found === undefined) passed++
    else {
      failed++
      kinds.set(found.kind, (kinds.get(found.kind) ?? 0) + 1)
      if (found.isNew) report(found)
    }
    if (tried % PROGRESS_PROGRAMS === 0)
      console.log(`  ${tried} programs, ${failed} found, ${rate(tried)}`)
  }
  for (const [kind, times] of kinds) if (times > 1) console.log(`${times} times: ${kind}`)
  console.log(`${passed + failed} programs and ${searching.runs()} runs, ${rate(passed + failed)}`)

  /**
   * Formats the rate by the clock and by processor time, which does not depend on other load of the
   * machine.
   */
  function rate(done: number): string {
    const { user, system } = process.cpuUsage()
    const [onClock, ofProcessor] = [performance.now() - started, (user + system) / 1_000].map(
      (ms) => Math.round((done * 60_000) / ms),
    )
    return `${onClock} programs a minute, ${ofProcessor} a minute of processor time`
  }
}

function report({ index, one, difference }: Pick<Finding, 'index' | 'one' | 'difference'>): void {
  console.log(`FAIL program ${index} of seed ${seed}, ${difference.step}`)
  console.log(`  ${values.engines.split(',')[0]}: ${difference.yardstick.slice(0, 600)}`)
  console.log(
    `  ${values.engines.split(',')[1] ?? 'the other'}: ${difference.tested.slice(0, 600)}`,
  )
  console.log(`  --replay '${JSON.stringify(one)}'`)
  if (values.findings !== undefined)
    appendFileSync(values.findings, `${JSON.stringify({ seed, index, ...difference, one })}\n`)
}

async function replay(text: string): Promise<void> {
  const one = JSON.parse(text) as FuzzCase
  const pair = pairOf(values.engines)
  for (const line of await observe(pair.yardstick, one)) console.log(line.slice(0, 1_000))
  const difference = await differenceOf(pair, one)
  if (difference === undefined) passed++
  else {
    failed++
    report({ index: 0, one, difference })
  }
}

/** Checks that each mutant is found within the programs of one run. */
async function findMutants(): Promise<void> {
  console.log(`fuzz: mutants, at most ${programs} programs each, seed ${seed}`)
  await hunt({ seed, programs, only: values.only, onHunted })

  function onHunted({ kind, name, found, one, programs: tried, seconds }: Hunted): void {
    if (found === undefined) failed++
    else passed++
    const how = found === 'hang' ? ', it hangs' : ''
    console.log(
      `${found === undefined ? 'FAIL' : 'ok  '} ${kind}: ${name}, ${tried} programs, ${seconds.toFixed(1)} s${how}`,
    )
    if (one !== undefined && values.verbose) console.log(`     ${JSON.stringify(one)}`)
  }
}
