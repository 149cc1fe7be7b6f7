/**
 * These are the limits for the cost of reading an input, and the ratios of a measured input to
 * them.
 */
import type { Cost } from './measured-node.ts'

/** The limit of one stretch between two turns of the event loop. */
export const STRETCH_MS = 20
/** The limit of processor time for each charged point. */
export const POINT_MS = 2
/** The limit of allocation in one stretch, in addition to a number for each byte of the input. */
export const ALLOCATED = 256_000
export const ALLOCATED_PER_BYTE = 24
/**
 * Making a response may cost in proportion to its bytes, with an allowance for the head of a small
 * one.
 */
export const RESPONSE_MS_PER_BYTE = 30e-6
export const ALLOCATED_PER_RESPONSE = 20_000
export const ALLOCATED_PER_RESPONSE_BYTE = 12

export const RULES = ['stretch', 'processor', 'allocation'] as const
export type Rule = (typeof RULES)[number]
/** The ratio by rule; 1 is the maximum allowed. */
export type Ratios = Readonly<Record<Rule, number>>

export function ratiosOf(cost: Cost): Ratios {
  const { stretchMs, cpuMs, allocated, points, bytes, responses, responseBytes, slowness } = cost
  return {
    stretch: stretchMs / slowness / STRETCH_MS,
    processor: cpuMs / slowness / (POINT_MS * points + RESPONSE_MS_PER_BYTE * responseBytes),
    allocation:
      allocated /
      (ALLOCATED +
        ALLOCATED_PER_BYTE * bytes +
        ALLOCATED_PER_RESPONSE * Math.max(responses, points) +
        ALLOCATED_PER_RESPONSE_BYTE * responseBytes),
  }
}

export const worstOf = (ratios: Ratios): number => Math.max(...RULES.map((rule) => ratios[rule]))

/**
 * Takes the minimum of each measure, because a slow input is slow each time. With more than two
 * samples the second smallest counts, because the clock may have got one wrong.
 */
export function cheapestOf(costs: readonly Cost[]): Cost {
  const sorted = (pick: (cost: Cost) => number) => costs.map(pick).toSorted((a, b) => a - b)
  const min = (pick: (cost: Cost) => number) => sorted(pick)[costs.length > 2 ? 1 : 0]!
  const max = (pick: (cost: Cost) => number) => sorted(pick).at(-1)!
  // Each stretch is scaled to the machine's slowness at the last measure.
  const { slowness } = costs.at(-1)!
  return {
    ...costs[0]!,
    slowness,
    stretchMs: slowness * min((cost) => cost.stretchMs / cost.slowness),
    cpuMs: slowness * min((cost) => cost.cpuMs / cost.slowness),
    allocated: min((cost) => cost.allocated),
    points: max((cost) => cost.points),
    responses: max((cost) => cost.responses),
    responseBytes: max((cost) => cost.responseBytes),
  }
}

export function costText({
  bytes,
  responseBytes,
  points,
  stretchMs,
  cpuMs,
  allocated,
}: Cost): string {
  const kilobytes = Math.round(allocated / 1_000)
  return `${bytes} bytes, ${points} points, stretch ${stretchMs.toFixed(1)} ms, processor ${cpuMs.toFixed(1)} ms, ${kilobytes} kB allocated, answer ${responseBytes} bytes`
}
