/**
 * This module checks whether an input is expensive each time, and which part of the input is the
 * cause.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cost, MeasuredNode } from './measured-node.ts'
import { simpler } from './mutate.ts'
import { cheapestOf, type Ratios, RULES, ratiosOf, worstOf } from './rules.ts'
import type { Case } from './wire.ts'

export type Found = { readonly one: Case; readonly cost: Cost; readonly ratios: Ratios }

/** An input that seemed too expensive is repeated this often. */
const TIMES = 5
/**
 * Two repetitions are this far apart, which is no fraction of a flashblock's time. Periodic work of
 * the front then does not fall into all of them.
 */
const APART_MS = 70

/** Measures an input again until it passes, or fails for sure. */
export async function repeated(
  node: MeasuredNode,
  one: Case,
  first?: Cost,
  times = TIMES,
): Promise<Cost> {
  const costs = first === undefined ? [] : [first]
  while (costs.length < times) {
    if (costs.length > 0) await sleep(APART_MS)
    costs.push(await node.measureCalibrated([one]))
    const worst = worstOf(ratiosOf(cheapestOf(costs)))
    if (worst <= 1 || (worst > 2 && costs.length >= 3)) break
  }
  const min = cheapestOf(costs)
  if (times < TIMES || ratiosOf(min).processor <= 1) return min
  return together(node, one, min)
}

/**
 * This many inputs are sent at once. Other work of the front is then a small part of the measured
 * time.
 */
const AT_ONCE = 8
async function together(node: MeasuredNode, one: Case, min: Cost): Promise<Cost> {
  const all = Array.from({ length: AT_ONCE }, () => one)
  const each: Cost[] = []
  while (each.length < 3) {
    const { cpuMs, points, responseBytes, slowness } = await node.measureCalibrated(all)
    const ofOne = { points: points / AT_ONCE, responseBytes: responseBytes / AT_ONCE }
    const scale = min.slowness / slowness
    each.push({ ...min, ...ofOne, cpuMs: (scale * cpuMs) / AT_ONCE })
  }
  const [first, ...others] = each as [Cost, ...Cost[]]
  return others.reduce((a, b) => (ratiosOf(b).processor < ratiosOf(a).processor ? b : a), first)
}

/** Reduces a case to the parts that the same fault needs. */
export async function simplified(node: MeasuredNode, found: Found, tries: number): Promise<Found> {
  let best = found
  const rule = RULES.reduce((a, b) => (found.ratios[b] > found.ratios[a] ? b : a))
  let isBetter = true
  let left = tries
  while (isBetter && left > 0) {
    isBetter = false
    for (const one of simpler(best.one)) {
      if (left-- <= 0) break
      // Some of the many cases that are tried twice are disturbed both times. A case that passes is
      // therefore tried as often as the first.
      const twice = ratiosOf(await repeated(node, one, undefined, 2))
      if (twice[rule] <= 1 || twice[rule] < best.ratios[rule] / 3) continue
      const cost = await repeated(node, one)
      const ratios = ratiosOf(cost)
      if (ratios[rule] <= 1 || ratios[rule] < best.ratios[rule] / 3) continue
      best = { one, cost, ratios }
      isBetter = true
      break
    }
  }
  return best
}
