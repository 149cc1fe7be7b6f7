/** Progress of a catch-up: blocks, gas and remaining time, by the rates of the last seconds. */
import type { CatchUp } from './tracker-types.ts'

export interface Progress {
  /** Counts blocks that became canonical. */
  add(blocks: number, gas: number): void
  /** undefined: there is nothing to catch up. */
  report(at: number, to: number): CatchUp | undefined
}

/** Distance from the head below which there is no catch-up. */
const CAUGHT_UP_BLOCKS = 8
/** Number of samples, one per second, for the rates. */
const SAMPLES = 15
const SAMPLE_MS = 1_000

type Sample = { readonly atMs: number; readonly blocks: number; readonly gas: number }

export function createProgress(now: () => number): Progress {
  let from: number | undefined
  let blocks = 0
  let gas = 0
  let samples: Sample[] = []
  return {
    add(moreBlocks, moreGas) {
      blocks += moreBlocks
      gas += moreGas
      if (now() - (samples.at(-1)?.atMs ?? 0) >= SAMPLE_MS || samples.length === 0)
        samples = [...samples.slice(1 - SAMPLES), { atMs: now(), blocks, gas }]
    },
    report(at, to) {
      if (to - at <= CAUGHT_UP_BLOCKS) {
        from = undefined
        return undefined
      }
      if (from === undefined) {
        from = at
        samples = [{ atMs: now(), blocks, gas }]
      }
      const first = samples[0]!
      const seconds = (now() - first.atMs) / 1_000
      const perSecond = (value: number) => (seconds > 0 ? value / seconds : 0)
      const blocksPerSecond = perSecond(blocks - first.blocks)
      return {
        from,
        at,
        to,
        blocksPerSecond,
        mgasPerSecond: perSecond((gas - first.gas) / 1_000_000),
        leftMs: blocksPerSecond > 0 ? ((to - at) / blocksPerSecond) * 1_000 : undefined,
      }
    },
  }
}
