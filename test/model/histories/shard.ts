/**
 * A process that runs random histories one after another and reports the result.
 * Usage: `shard.ts --runs N --seed S`, or `shard.ts --history JSON` to repeat one of them.
 * A child process reports to its parent.
 */
import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { Counts } from './counts.ts'
import { Directory } from './directory.ts'
import { runHistory } from './run.ts'
import { type History, history } from './steps.ts'

export type Report = {
  readonly histories: number
  readonly counts: Readonly<Record<string, number>>
  readonly failure:
    | { readonly seed: number; readonly history: History | undefined; readonly message: string }
    | undefined
}
/** Message to a parent: another history has started, or all are over. */
export type Word = { readonly type: 'alive' } | { readonly type: 'report'; readonly report: Report }

/** Runs the histories; `isShrunk`: a failure is made as small as the time allows. */
export async function runShard(options: {
  readonly runs: number
  readonly seed: number
  readonly isShrunk: boolean
}): Promise<Report> {
  const { runs, seed, isShrunk } = options
  const counts = new Counts()
  const directory = new Directory()
  let histories = 0
  let untilMs = Number.POSITIVE_INFINITY
  const property = fc.asyncProperty(history, async (each) => {
    // The time for shrinking is over, so further candidates count as right.
    if (performance.now() > untilMs) return
    histories++
    process.send?.({ type: 'alive' } satisfies Word)
    try {
      await runHistory(each, { directory, counts, check: 'some' })
    } catch (error) {
      untilMs = Math.min(untilMs, performance.now() + SHRINK_MS)
      throw error
    }
  })
  const result = await fc.check(property, { seed, numRuns: runs, endOnFailure: !isShrunk })
  let failure: Report['failure']
  const [found] = result.counterexample ?? []
  if (found !== undefined) {
    const smallest = isShrunk ? await removeSteps(found, directory) : found
    const message = (await faultOf(smallest, directory)) ?? String(result.errorInstance)
    failure = { seed, history: smallest, message }
  }
  await directory.remove()
  return { histories, counts: Object.fromEntries(counts.of), failure }
}
const SHRINK_MS = 30_000

/**
 * Removes ever smaller pieces of the list of steps, because fast-check removes single steps only
 * near its end.
 */
async function removeSteps(found: History, directory: Directory): Promise<History> {
  let best = found
  const untilMs = performance.now() + SHRINK_MS
  for (let size = best.steps.length >> 1; size >= 1; size = size > 1 ? size >> 1 : 0)
    for (let at = 0; at < best.steps.length && performance.now() < untilMs; ) {
      const fewer = { ...best, steps: best.steps.toSpliced(at, size) }
      if ((await faultOf(fewer, directory)) === undefined) at += size
      else best = fewer
    }
  return best
}

async function faultOf(one: History, directory: Directory): Promise<string | undefined> {
  try {
    await runHistory(one, { directory, counts: new Counts(), check: 'some' })
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

async function runOne(text: string): Promise<Report> {
  const directory = new Directory()
  const history = JSON.parse(text) as History
  const message = await faultOf(history, directory)
  await directory.remove()
  const failure = message === undefined ? undefined : { seed: 0, history, message }
  return { histories: 1, counts: {}, failure }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '100' },
      seed: { type: 'string', default: '1' },
      raw: { type: 'boolean', default: false },
      history: { type: 'string' },
    },
  })
  const { runs, seed, raw } = values
  const report =
    values.history === undefined
      ? await runShard({ runs: Number(runs), seed: Number(seed), isShrunk: !raw })
      : await runOne(values.history)
  if (process.send !== undefined) process.send({ type: 'report', report } satisfies Word)
  else if (report.failure === undefined) console.log(report)
  else console.log(`${JSON.stringify(report.failure.history)}\n${report.failure.message}`)
}
