/**
 * A step of the gate or of the full run is a check from outside: a vitest test that runs a command.
 * The command closes on `N passed, N failed, N skipped`. A reporter (`counts.ts`) adds these up.
 */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'vitest'
import type { Counts } from './counts.ts'
import type { Row } from './list.ts'

/**
 * A step that hangs fails after this time, and the other steps go on. The longest step takes a
 * fraction of this time.
 */
const STEP_SECONDS = 1_500
/** A step that yields may wait for all others to end before it runs at its own speed. */
const YIELDING_SECONDS = 5_400
/** This many lines of a failed step's output are printed in vitest's report. */
const PRINTED_LINES = 40
const CLOSING = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/gm
const FAILURES =
  /^ *(FAIL |× |.*(Error|error):).*$|^.*(FATAL|Fatal error|Assertion|Check failed).*$/gm
/** Bash measures the processor time of a command and of all processes that the command started. */
const TIMED = 'TIMEFORMAT="%R %U %S"; { time timeout --kill-after 30 "$@" 2>&1; } 2>&3'
/**
 * Runs a command in a session of low priority. Beside a busy session it gets a seventh of a
 * processor. At the lowest priority it would get a seventieth, and would never end.
 */
const YIELDING = ['nice', '-n', '8', 'test/kit/yielding.sh']
/** Ends the session with this process, which closes the command's standard input by ending. */
const ENDING = '{ cat; pkill -s $$; } <&0 >/dev/null 2>&1 3>&- &\n'

export type StepOptions = {
  /**
   * A step that takes longer counts as hanging. The default is `STEP_SECONDS`, or
   * `YIELDING_SECONDS` for steps that yield.
   */
  readonly seconds?: number
  /** The steps run at a low priority. */
  readonly isYielding?: boolean
}

/** Declares a test for each row. */
export function steps(
  rows: readonly Row[],
  of: 'gate' | 'full',
  { isYielding = false, seconds = isYielding ? YIELDING_SECONDS : STEP_SECONDS }: StepOptions = {},
): void {
  for (const { name, script = name, [of]: flags } of rows) {
    if (flags === undefined) continue
    const command = [script, '--', ...flags.split(' ').filter((flag) => flag !== '')]
    const timeout = (seconds + 60) * 1_000
    test(name, { timeout }, (context) => run(context, command, { seconds, isYielding }))
  }
}

async function run(
  { task, skip }: TestContext,
  command: readonly string[],
  { seconds, isYielding }: Required<StepOptions>,
): Promise<void> {
  const script = isYielding ? ENDING + TIMED : TIMED
  const timed = ['bash', '-c', script, 'bash', String(seconds), 'npm', 'run', '-s', ...command]
  const [program, ...words] = isYielding ? [...YIELDING, ...timed] : timed
  const child = spawn(program!, words, {
    stdio: [isYielding ? 'pipe' : 'ignore', 'pipe', 'inherit', 'pipe'],
    detached: isYielding,
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [output, times, status] = await Promise.all([
    text(child.stdout!),
    text(child.stdio[3] as NodeJS.ReadableStream),
    ended,
  ])
  const closing = [...output.matchAll(CLOSING)].at(-1)
  const [passed, failed, skipped] = (closing?.slice(1) ?? []).map((digits = '0') => Number(digits))
  const [wall, user, system] = times.trim().split(' ').map(Number)
  const counts: Counts = {
    passed: passed ?? 0,
    failed: failed ?? 0,
    skipped: skipped ?? 0,
    wallSeconds: wall!,
    processorSeconds: user! + system!,
  }
  Object.assign(task.meta, { counts })
  console.log(`== ${task.name}\n${output.trimEnd()}\n== ${task.name}: status ${status}\n`)
  if (status === 0 && counts.failed === 0) {
    if (counts.passed === 0) skip('the command counted nothing that passed')
    return
  }
  // A command without a closing line wrote the reason of its failure last.
  const lineCount = closing === undefined ? PRINTED_LINES : 3
  const reasons = [...output.matchAll(FAILURES)].slice(0, PRINTED_LINES).map(([line]) => line)
  const tail = output.trimEnd().split('\n').slice(-lineCount)
  const why = status === 124 || status === 137 ? [`did not end within ${seconds} s`] : []
  throw new Error([`status ${status}`, ...why, ...reasons, ...tail].join('\n'))
}
