/** One run in a process of its own, under whatever edits it was started with: its options come as a message, so does what was seen. */
import type { CounterName, Counts } from './counters.ts'
import { cpuSeconds } from './cpu-time.ts'
import type { TortureOptions } from './options.ts'
import { type TortureResult, torture } from './run.ts'

export type Job = {
  readonly options: TortureOptions
  /** It runs at least so long, and until everything was counted so often. */
  readonly seconds: number
  readonly least: Partial<Counts>
  /** But no longer than this, of processor time: a busy machine gives less of it, and less is seen. */
  readonly mostCpuSeconds: number
  /** Nor than this, where it gets hardly any. */
  readonly mostSeconds: number
}

/** Once a second: this process hangs when it comes no more. */
export type SignOfLife = 'alive'

process.once('message', async (job: Job) => {
  const { options, seconds, least, mostCpuSeconds, mostSeconds } = job
  const wanted = Object.entries(least) as [CounterName, number][]
  let saidAt = 0
  const isEnough = (counts: Counts, ran: number) => {
    if (ran >= saidAt) {
      process.send?.('alive' satisfies SignOfLife)
      saidAt = ran + 1
    }
    if (cpuSeconds() >= mostCpuSeconds || ran >= mostSeconds) return true
    return ran >= seconds && wanted.every(([name, count]) => counts[name] >= count)
  }
  const result: TortureResult = await torture(options, isEnough)
  process.send?.(result, () => process.exit())
})
