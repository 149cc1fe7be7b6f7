/**
 * The node's load as a weight for a load balancer. ADR 52 explains why several nodes do not
 * oscillate.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Pressure at one moment, or smoothed. */
export type Pressure = {
  /** Share of busy workers, 0 to 1. */
  readonly busy: number
  /** Waiting of calls or of the event loop: 0 is none, 1 is very long. */
  readonly wait: number
}
export interface Load {
  /** Reports how long a call waited for its worker. */
  queued(ms: number): void
  start(): Weighing
}
export interface Weighing {
  /** Percent of the load that an idle node accepts, 20 to 100. */
  weight(): number
  close(): void
}

export const IDLE: Pressure = { busy: 0, wait: 0 }

/** Interval between two samples of the workers. */
export const SAMPLE_MS = 250
/** Time constant of the smoothing, many times the interval of a load balancer's checks. */
const MEMORY_MS = 8_000
/** A wait of this length gives a share of one half. */
const HALF_WAIT_MS = 100
/** Maximum weight that a node loses by busy workers, and by waiting calls. */
const BUSY_POINTS = 50
const WAIT_POINTS = 30
/** The weight changes in steps of this many points. */
const STEP = 5

/** Smooths the pressure after `ms` in which it was `sample`. */
export function smooth(before: Pressure, sample: Pressure, ms: number): Pressure {
  const share = 1 - Math.exp(-ms / MEMORY_MS)
  const towards = (from: number, to: number) => from + share * (to - from)
  return { busy: towards(before.busy, sample.busy), wait: towards(before.wait, sample.wait) }
}

/**
 * Returns the weight for a pressure.
 * @param said the previous weight, which remains for changes of less than a step
 */
export function weightOf({ busy, wait }: Pressure, said: number): number {
  const exact = 100 - BUSY_POINTS * busy - WAIT_POINTS * wait
  if (Math.abs(exact - said) < STEP) return said
  return STEP * Math.round(exact / STEP)
}

/** Maps milliseconds of waiting to a share of 0 to 1. */
export const waitShare = (ms: number): number => ms / (ms + HALF_WAIT_MS)

export function createLoad(
  pool: () => { readonly busy: number; readonly threads: number },
  now: () => number,
): Load {
  let longestMs = 0

  function start(): Weighing {
    const loop = monitorEventLoopDelay({ resolution: 10 })
    loop.enable()
    let pressure = IDLE
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
