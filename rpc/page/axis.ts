/** Positions on the time axis of a block. */
import type { Row, Tile } from './store.ts'

/**
 * Length of one block's axis in milliseconds, a little more than a block takes, so that the seal
 * fits.
 */
export const axisMs = (blockMs: number): number => 1.12 * blockMs

const PER_BLOCK = 5

/** Median milliseconds between two visible flashblocks. */
export function stepOf(rows: readonly Row[], blockMs: number): number {
  const steps: number[] = []
  for (const { tiles } of rows)
    for (const [at, { at: arrived }] of tiles.entries()) {
      const before = tiles[at - 1]?.at
      if (arrived !== undefined && before !== undefined && arrived > before)
        steps.push(arrived - before)
    }
  steps.sort((a, b) => a - b)
  const middle = steps[steps.length >> 1] ?? blockMs / PER_BLOCK
  return Math.min(blockMs, Math.max(middle, blockMs / 50))
}

export type TileBox = {
  readonly tile: Tile
  /** Shares of the axis. */
  readonly left: number
  readonly width: number
  /** Share of the axis from the frame's arrival to its publish. */
  readonly busy: number
  /** Gas, as a share of a flashblock's part of the block. */
  readonly load: number
}

/**
 * Computes the boxes of a row.
 * @param scale `step` is the milliseconds between flashblocks
 */
export function boxesOf(
  { tiles, startedAt, gasLimit }: Row,
  { blockMs, step }: { readonly blockMs: number; readonly step: number },
): readonly TileBox[] {
  const length = axisMs(blockMs)
  const share = gasLimit * Math.min(1, step / blockMs)
  const starts = tiles.map(({ at, index }) =>
    at === undefined || startedAt === undefined ? index * step : at - startedAt,
  )
  return tiles.map((tile, at) => {
    const start = Math.max(0, starts[at]!)
    const next = starts.find((one, other) => other > at && one > start) ?? start + step
    const left = Math.min(start / length, 1 - MIN)
    return {
      tile,
      left,
      width: Math.max(MIN, Math.min((Math.min(next - start, step) - GAP_MS) / length, 1 - left)),
      busy: Math.min(1, (tile.publishMs ?? 0) / step),
      load: share === 0 ? 0 : Math.min(1, tile.gas / share),
    }
  })
}
/** Minimum visible share of the axis, and the gap between two tiles. */
const MIN = 0.012
const GAP_MS = 8

/** Returns a moment's share of the axis of a row; undefined when it lies outside. */
export function shareAt(row: Row, at: number, blockMs: number): number | undefined {
  if (row.startedAt === undefined) return undefined
  const share = (at - row.startedAt) / axisMs(blockMs)
  return share >= -0.02 && share <= 1.05 ? Math.min(1, Math.max(0, share)) : undefined
}

/** Returns the milliseconds of the axis lines. */
export function ticks(blockMs: number): readonly number[] {
  const every = blockMs <= 1_000 ? 200 : blockMs <= 2_000 ? 500 : blockMs / 4
  return Array.from({ length: Math.floor(blockMs / every) + 1 }, (_, at) => at * every)
}
