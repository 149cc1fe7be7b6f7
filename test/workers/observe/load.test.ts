/** The weight that a node gives itself: how it falls, and that nodes that all do so come to rest. */
import { describe, expect, test } from 'vitest'
import {
  AT_REST,
  type Pressure,
  smooth,
  waitShare,
  weightOf,
} from '../../../workers/observe/load.ts'

const FULL: Pressure = { busy: 1, wait: 1 }

test('nothing to do is 100, and the least is 20', () => {
  expect(weightOf(AT_REST, 100)).toBe(100)
  expect(weightOf(AT_REST, 20)).toBe(100)
  expect(weightOf(FULL, 100)).toBe(20)
  expect(weightOf({ busy: 1, wait: 0 }, 100)).toBe(50)
})

test('less than a step is not said', () => {
  expect(weightOf({ busy: 0.09, wait: 0 }, 100)).toBe(100)
  expect(weightOf({ busy: 0.1, wait: 0 }, 100)).toBe(95)
  expect(weightOf({ busy: 0.15, wait: 0 }, 95)).toBe(95)
})

test('a second of everything is a tenth of it, and how often it is looked at does not matter', () => {
  const once = smooth(AT_REST, FULL, 1_000)
  expect(once.busy).toBeCloseTo(0.1175, 4)
  let often = AT_REST
  for (let look = 0; look < 4; look++) often = smooth(often, FULL, 250)
  expect(often.busy).toBeCloseTo(once.busy, 10)
  expect(waitShare(0)).toBe(0)
  expect(waitShare(100)).toBe(0.5)
})

/**
 * Nodes of these capacities (what each does in a second) behind a balancer that asks for weights once a second and deals `load` by them; a
 * node's queue is what it could not do. Gives the weights said in the last half.
 */
function run(capacities: readonly number[], load: number, seconds: number) {
  const nodes = capacities.map((capacity) => ({
    ...{ capacity, said: 100, pressure: AT_REST, queue: 0, dealt: 100 },
  }))
  const late: number[][] = nodes.map(() => [])
  let lost = 0
  for (let tick = 0; tick < seconds * 4; tick++) {
    if (tick % 4 === 0) for (const node of nodes) node.dealt = node.said
    const all = nodes.reduce((sum, { dealt }) => sum + dealt, 0)
    for (const [index, node] of nodes.entries()) {
      const work = node.queue + (load / 4) * (node.dealt / all)
      const done = Math.min(work, node.capacity / 4)
      node.queue = Math.min(work - done, 2 * node.capacity)
      const waitMs = (1_000 * node.queue) / node.capacity
      const sample = { busy: done / (node.capacity / 4), wait: waitShare(waitMs) }
      node.pressure = smooth(node.pressure, sample, 250)
      node.said = weightOf(node.pressure, node.said)
      if (tick < seconds * 2) continue
      late[index]!.push(node.said)
      lost += node.queue
    }
  }
  return { late, lost }
}
const swing = (weights: readonly number[]) => Math.max(...weights) - Math.min(...weights)

describe('nodes that weigh themselves', () => {
  test.each<[name: string, capacities: readonly number[], load: number]>([
    ['two alike, half busy', [100, 100], 100],
    ['two alike, nearly full', [100, 100], 190],
    ['two alike, too much', [100, 100], 300],
    ['one of half the speed', [100, 50], 110],
    ['one of a third', [90, 30], 90],
    ['four, one slow', [100, 100, 100, 40], 250],
    ['ten alike', Array.from({ length: 10 }, () => 100), 800],
    ['ten of all speeds', Array.from({ length: 10 }, (_, at) => 50 + 10 * at), 700],
  ])('come to rest: %s', (_name, capacities, load) => {
    const { late } = run(capacities, load, 120)
    for (const weights of late) expect(swing(weights)).toBeLessThanOrEqual(10)
  })

  test('a slow one is spared what it could not do', () => {
    const { late, lost } = run([100, 50], 110, 120)
    expect(late[1]!.at(-1)).toBeLessThan(late[0]!.at(-1)!)
    // In equal parts five of 55 would wait more each second.
    expect(lost / late[0]!.length).toBeLessThan(50)
  })
})
