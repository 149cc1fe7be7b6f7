/** Starts a run in a process of its own. */
import { fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { type Edit, editedEnv, editedExecArgv } from '../kit/edits.ts'
import type { Heartbeat, Job } from './child.ts'
import type { TortureResult } from './run.ts'

/** A run hangs when it is silent during this much processor time. */
const SILENCE_SECONDS = 10
const CHECK_MS = 500
/** Time for the start and the end of a run. */
const MARGIN_SECONDS = 120
const TICKS_PER_SECOND = 100

export type RunEnd =
  | TortureResult
  /** A thread reads without end, so the process was killed. */
  | { readonly isHanging: true }
  /**
   * The process ended by itself, or not in time. This is a fault of the run, not of the product.
   */
  | { readonly crash: string }

export async function startRun(job: Job, edits: readonly Edit[] = []): Promise<RunEnd> {
  const child = fork(new URL('./child.ts', import.meta.url), {
    execArgv: edits.length > 0 ? [...editedExecArgv] : [],
    env: editedEnv(edits),
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let receivedAt = 0
  let isHanging = false
  let isLate = false
  const capSeconds = job.maxSeconds + MARGIN_SECONDS
  const untilMs = performance.now() + 1000 * capSeconds
  const timer = setInterval(() => {
    isHanging = cpuSecondsOf(child.pid!) - receivedAt > SILENCE_SECONDS
    isLate = performance.now() > untilMs
    if (isHanging || isLate) kill()
  }, CHECK_MS)
  let errors = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-2_000)
  })
  const ended = (how: string | number | null) => `the run ended with ${how}: ${errors.trim()}`
  try {
    return await new Promise((resolve) => {
      child.on('message', (message: Heartbeat | TortureResult) => {
        receivedAt = cpuSecondsOf(child.pid!)
        if (message !== 'alive') resolve(message)
      })
      child.once('exit', (code, signal) =>
        resolve(
          isHanging
            ? { isHanging }
            : {
                crash: isLate
                  ? `the run did not end within ${capSeconds} s`
                  : ended(code ?? signal),
              },
        ),
      )
      child.send(job)
    })
  } finally {
    clearInterval(timer)
    process.off('exit', kill)
  }
}

/** Returns the processor time of a process so far; 0 after its end. */
function cpuSecondsOf(pid: number): number {
  try {
    // The name in the second field may contain blanks.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
  } catch {
    return 0
  }
}
