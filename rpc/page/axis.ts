/** Where things stand on the time axis of a block. */
import type { Cell, Row } from './store.ts'

/** Milliseconds of one block's axis: a little more than a block takes, so that its seal is on it. */
export const axisMs = (blockMs: number): number => 1.12 * blockMs

const PER_BLOCK = 5

/** Milliseconds from one flashblock to the next, in the middle of those that are shown. */
export function stepOf(rows: readonly Row[], blockMs: number): number {
  const steps: number[] = []
  for (const { cells } of rows)
    for (const [at, { at: arrived }] of cells.entries()) {
      const before = cells[at - 1]?.at
      if (arrived !== undefined && before !== undefined && arrived > before)
        steps.push(arrived - before)
    }
  steps.sort((a, b) => a - b)
  const middle = steps[steps.length >> 1] ?? blockMs / PER_BLOCK
  return Math.min(blockMs, Math.max(middle, blockMs / 50))
}

export type Placed = {
  readonly cell: Cell
  /** Shares of the axis. */
  readonly left: number
  readonly width: number
  /** From the frame until it was readable. */
  readonly busy: number
  /** Gas, as a share of what a flashblock's part of the block may have. */
  readonly load: number
}

/** @param step milliseconds between flashblocks */
export function placed(
  { cells, begunAt, gasLimit }: Row,
  { blockMs, step }: { readonly blockMs: number; readonly step: number },
): readonly Placed[] {
  const length = axisMs(blockMs)
  const share = gasLimit * Math.min(1, step / blockMs)
  const starts = cells.map(({ at, index }) =>
    at === undefined || begunAt === undefined ? index * step : at - begunAt,
  )
  return cells.map((cell, at) => {
    const start = Math.max(0, starts[at]!)
    const next = starts.find((one, other) => other > at && one > start) ?? start + step
    const left = Math.min(start / length, 1 - LEAST)
    return {
      cell,
      left,
      width: Math.max(LEAST, Math.min((Math.min(next - start, step) - GAP_MS) / length, 1 - left)),
      busy: Math.min(1, (cell.publishMs ?? 0) / step),
      load: share === 0 ? 0 : Math.min(1, cell.gas / share),
    }
  })
}
/** The least share of the axis that can be seen, and what lies between two cells. */
const LEAST = 0.012
const GAP_MS = 8

/** Where a moment stands on the axis of a row; undefined: not on it. */
export function shareAt(row: Row, at: number, blockMs: number): number | undefined {
  if (row.begunAt === undefined) return undefined
  const share = (at - row.begunAt) / axisMs(blockMs)
  return share >= -0.02 && share <= 1.05 ? Math.min(1, Math.max(0, share)) : undefined
}

/** Milliseconds of the lines on the axis. */
export function ticks(blockMs: number): readonly number[] {
  const every = blockMs <= 1_000 ? 200 : blockMs <= 2_000 ? 500 : blockMs / 4
  return Array.from({ length: Math.floor(blockMs / every) + 1 }, (_, at) => at * every)
}
