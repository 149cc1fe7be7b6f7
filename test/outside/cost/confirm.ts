/** Whether an input is dear each time, and what of it makes it so. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cost, MeasuredNode } from './measured-node.ts'
import { simpler } from './mutate.ts'
import { leastOf, type Ratios, RULES, ratiosOf, worstOf } from './rules.ts'
import type { Case } from './wire.ts'

export type Found = { readonly one: Case; readonly cost: Cost; readonly ratios: Ratios }

/** Repetitions of what seemed to cost too much. */
const TIMES = 5
/** Between two of them, and no part of a flashblock's time: what the front does now and then by itself is not in one after the other. */
const APART_MS = 70

/** Measured again until it passes, or fails for sure. */
export async function repeated(
  node: MeasuredNode,
  one: Case,
  first?: Cost,
  times = TIMES,
): Promise<Cost> {
  node.calibrate()
  const costs = first === undefined ? [] : [first]
  while (costs.length < times) {
    if (costs.length > 0) await sleep(APART_MS)
    costs.push(await node.measure(one))
    const worst = worstOf(ratiosOf(leastOf(costs)))
    if (worst <= 1 || (worst > 2 && costs.length >= 3)) break
  }
  const least = leastOf(costs)
  if (times < TIMES || ratiosOf(least).processor <= 1) return least
  return together(node, one, least)
}

/** So many at once, so that what else the front does meanwhile is a small part of what they take. */
const AT_ONCE = 8
async function together(node: MeasuredNode, one: Case, least: Cost): Promise<Cost> {
  const all = Array.from({ length: AT_ONCE }, () => one)
  const each: Cost[] = []
  while (each.length < 3) {
    const { cpuMs, points, answerBytes } = await node.measureAll(all)
    const ofOne = { points: points / AT_ONCE, answerBytes: answerBytes / AT_ONCE }
    each.push({ ...least, ...ofOne, cpuMs: cpuMs / AT_ONCE })
  }
  const [first, ...others] = each as [Cost, ...Cost[]]
  return others.reduce((a, b) => (ratiosOf(b).processor < ratiosOf(a).processor ? b : a), first)
}

/** The same fault without what it does not need. */
export async function simplified(node: MeasuredNode, found: Found, tries: number): Promise<Found> {
  let best = found
  const rule = RULES.reduce((a, b) => (found.ratios[b] > found.ratios[a] ? b : a))
  let isBetter = true
  let left = tries
  while (isBetter && left > 0) {
    isBetter = false
    for (const one of simpler(best.one)) {
      if (left-- <= 0) break
      // Of many that are tried twice some have something else in their way both times: what passes is tried as often as the first.
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
