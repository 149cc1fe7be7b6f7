/** What reading an input may cost the front, and how near to that a measured one came. */
import type { Cost } from './measured-node.ts'

/** One stretch between two turns of the event loop. */
export const STRETCH_MS = 20
/** Processor time for each point charged. */
export const POINT_MS = 2
/** In one stretch, beside so many for each byte of the input. */
export const ALLOCATED = 256_000
export const ALLOCATED_PER_BYTE = 24
/** Making an answer is held against the answer's bytes, and a small one has a head. */
export const ANSWER_MS_PER_BYTE = 30e-6
export const ALLOCATED_PER_ANSWER = 20_000
export const ALLOCATED_PER_ANSWER_BYTE = 12

export const RULES = ['stretch', 'processor', 'allocation'] as const
export type Rule = (typeof RULES)[number]
/** By rule: 1 is the most that is allowed. */
export type Ratios = Readonly<Record<Rule, number>>

export function ratiosOf(cost: Cost): Ratios {
  const { stretchMs, cpuMs, allocated, points, bytes, answers, answerBytes, slowness } = cost
  return {
    stretch: stretchMs / slowness / STRETCH_MS,
    processor: cpuMs / slowness / (POINT_MS * points + ANSWER_MS_PER_BYTE * answerBytes),
    allocation:
      allocated /
      (ALLOCATED +
        ALLOCATED_PER_BYTE * bytes +
        ALLOCATED_PER_ANSWER * Math.max(answers, points) +
        ALLOCATED_PER_ANSWER_BYTE * answerBytes),
  }
}

export const worstOf = (ratios: Ratios): number => Math.max(...RULES.map((rule) => ratios[rule]))

/** What is slow is slow each time: of each measure the least of several, but for one that the clock may have got wrong. */
export function leastOf(costs: readonly Cost[]): Cost {
  const sorted = (pick: (cost: Cost) => number) => costs.map(pick).toSorted((a, b) => a - b)
  const least = (pick: (cost: Cost) => number) => sorted(pick)[costs.length > 2 ? 1 : 0]!
  const most = (pick: (cost: Cost) => number) => sorted(pick).at(-1)!
  // As long as each would have taken when the last was measured.
  const { slowness } = costs.at(-1)!
  return {
    ...costs[0]!,
    slowness,
    stretchMs: slowness * least((cost) => cost.stretchMs / cost.slowness),
    cpuMs: slowness * least((cost) => cost.cpuMs / cost.slowness),
    allocated: least((cost) => cost.allocated),
    points: most((cost) => cost.points),
    answers: most((cost) => cost.answers),
    answerBytes: most((cost) => cost.answerBytes),
  }
}

export function costText({
  bytes,
  answerBytes,
  points,
  stretchMs,
  cpuMs,
  allocated,
}: Cost): string {
  const kilobytes = Math.round(allocated / 1_000)
  return `${bytes} bytes, ${points} points, stretch ${stretchMs.toFixed(1)} ms, processor ${cpuMs.toFixed(1)} ms, ${kilobytes} kB allocated, answer ${answerBytes} bytes`
}
