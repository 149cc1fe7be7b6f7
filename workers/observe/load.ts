/** How much this node has to do, as a weight for a load balancer. ADR 52 says why several such nodes do not push load to and fro. */
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Of a moment, or smoothed. */
export type Pressure = {
  /** Share of the workers that run something, 0 to 1. */
  readonly busy: number
  /** Of what a call or the event loop waits: 0 not at all, 1 very long. */
  readonly wait: number
}
export interface Load {
  /** A call waited so long for its worker. */
  queued(ms: number): void
  /** Measures from now on. */
  start(): Weighing
}
export interface Weighing {
  /** Percent of what this node takes when it has nothing to do, 20 to 100. */
  weight(): number
  close(): void
}

export const AT_REST: Pressure = { busy: 0, wait: 0 }

/** Between two looks at what the workers do. */
export const SAMPLE_MS = 250
/** Of the smoothing: many times what passes between two questions of a load balancer. */
const MEMORY_MS = 8_000
/** A wait of this counts half. */
const HALF_WAIT_MS = 100
/** Points of weight that a node loses where all workers are busy, and where calls wait very long. */
const BUSY_POINTS = 50
const WAIT_POINTS = 30
/** The weight moves in steps of so many points. */
const STEP = 5

/** After `ms` in which the pressure was `sample`. */
export function smooth(before: Pressure, sample: Pressure, ms: number): Pressure {
  const share = 1 - Math.exp(-ms / MEMORY_MS)
  const towards = (from: number, to: number) => from + share * (to - from)
  return { busy: towards(before.busy, sample.busy), wait: towards(before.wait, sample.wait) }
}

/** @param said the weight before, which a change of less than a step leaves as it is */
export function weightOf({ busy, wait }: Pressure, said: number): number {
  const exact = 100 - BUSY_POINTS * busy - WAIT_POINTS * wait
  if (Math.abs(exact - said) < STEP) return said
  return STEP * Math.round(exact / STEP)
}

/** 0 to 1, of milliseconds. */
export const waitShare = (ms: number): number => ms / (ms + HALF_WAIT_MS)

export function createLoad(
  pool: () => { readonly busy: number; readonly threads: number },
  now: () => number,
): Load {
  let longestMs = 0

  function start(): Weighing {
    const loop = monitorEventLoopDelay({ resolution: 10 })
    loop.enable()
    let pressure = AT_REST
    let said = 100
    let at = now()
    function sample(): void {
      const { busy, threads } = pool()
      const waitMs = Math.max(longestMs, loop.percentile(50) / 1e6 - 10)
      const time = now()
      pressure = smooth(
        pressure,
        { busy: busy / threads, wait: waitShare(Math.max(0, waitMs)) },
        time - at,
      )
      said = weightOf(pressure, said)
      at = time
      longestMs = 0
      loop.reset()
    }
    const timer = setInterval(sample, SAMPLE_MS).unref()
    return {
      weight: () => said,
      close() {
        clearInterval(timer)
        loop.disable()
      },
    }
  }
  return {
    queued(ms) {
      if (ms > longestMs) longestMs = ms
    },
    start,
  }
}
