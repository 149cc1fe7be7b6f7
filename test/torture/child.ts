/**
 * One run in a process of its own, under the edits with which it was started. Its options come as a
 * message, and it sends its result as one.
 */
import type { CounterName, Counts } from './counters.ts'
import { cpuSeconds } from './cpu-time.ts'
import type { TortureOptions } from './options.ts'
import { type TortureResult, torture } from './run.ts'

export type Job = {
  readonly options: TortureOptions
  /** The run lasts at least this long, and until every counter reaches its minimum. */
  readonly seconds: number
  readonly min: Partial<Counts>
  /**
   * Limit in processor time, because a busy machine gives less of it, and the run then sees less.
   */
  readonly maxCpuSeconds: number
  /** Limit in real time, for a machine that gives hardly any processor time. */
  readonly maxSeconds: number
}

/** Sent once a second; the process hangs when it stops. */
export type Heartbeat = 'alive'

process.once('message', async (job: Job) => {
  const { options, seconds, min, maxCpuSeconds, maxSeconds } = job
  const wanted = Object.entries(min) as [CounterName, number][]
  let saidAt = 0
  const isEnough = (counts: Counts, ran: number) => {
    if (ran >= saidAt) {
      process.send?.('alive' satisfies Heartbeat)
      saidAt = ran + 1
    }
    if (cpuSeconds() >= maxCpuSeconds || ran >= maxSeconds) return true
    return ran >= seconds && wanted.every(([name, count]) => counts[name] >= count)
  }
  const result: TortureResult = await torture(options, isEnough)
  process.send?.(result, () => process.exit())
})
