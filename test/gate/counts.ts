/**
 * This reporter prints the counts of all steps as a table, and the line on which `.ci/run` closes.
 */
import type { Reporter, TestCase } from 'vitest/node'

/** These are the counts of one step and the time that the step took. */
export type Counts = {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly wallSeconds: number
  /** The time includes all processes that the command started. */
  readonly processorSeconds: number
}

declare module 'vitest' {
  interface TaskMeta {
    counts?: Counts
  }
}

export const counts: Reporter = {
  onTestRunEnd(modules, errors) {
    const steps = modules.flatMap((module) => [...module.children.allTests()])
    const rows = steps.filter((test) => test.result().state !== 'skipped').map(rowOf)
    const broken = modules.filter((module) => module.errors().length > 0).length + errors.length
    const sum = (of: (row: Counts) => number) => rows.reduce((all, row) => all + of(row), 0)
    for (const row of rows) console.log(lineOf(row))
    const failed = sum((row) => row.failed) + broken
    console.log(
      `${sum((row) => row.passed)} passed, ${failed} failed, ${sum((row) => row.skipped)} skipped`,
    )
  },
}

type Row = Counts & { readonly name: string }

/** A step that failed without a count of failures counts as one failure. */
function rowOf(test: TestCase): Row {
  const none = { passed: 0, failed: 0, skipped: 0, wallSeconds: 0, processorSeconds: 0 }
  const counted = { ...none, ...test.meta().counts, name: test.name }
  const hasFailed = test.result().state === 'failed'
  return { ...counted, failed: Math.max(counted.failed, hasFailed ? 1 : 0) }
}

function lineOf({ name, passed, failed, skipped, wallSeconds, processorSeconds }: Row): string {
  const [wall, processor] = [wallSeconds, processorSeconds].map((seconds) =>
    String(Math.round(seconds)).padStart(5),
  )
  const by = (count: number, width: number) => String(count).padStart(width)
  const results = `${by(passed, 6)} passed ${by(failed, 3)} failed ${by(skipped, 3)} skipped`
  return `${name.padEnd(22)} ${results} ${wall} s, ${processor} s of processor`
}
