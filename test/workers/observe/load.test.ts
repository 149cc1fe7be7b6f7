/**
 * A node reports its own weight. The tests check how it falls, and that several such nodes reach a
 * balance.
 */
import { describe, expect, test } from 'vitest'
import { IDLE, type Pressure, smooth, waitShare, weightOf } from '../../../workers/observe/load.ts'

const FULL: Pressure = { busy: 1, wait: 1 }

test('an idle node has the weight 100, and a full one 20', () => {
  expect(weightOf(IDLE, 100)).toBe(100)
  expect(weightOf(IDLE, 20)).toBe(100)
  expect(weightOf(FULL, 100)).toBe(20)
  expect(weightOf({ busy: 1, wait: 0 }, 100)).toBe(50)
})

test('a weight changes only by full steps', () => {
  expect(weightOf({ busy: 0.09, wait: 0 }, 100)).toBe(100)
  expect(weightOf({ busy: 0.1, wait: 0 }, 100)).toBe(95)
  expect(weightOf({ busy: 0.15, wait: 0 }, 95)).toBe(95)
})

test('the load is an average over time, however often it is sampled', () => {
  const once = smooth(IDLE, FULL, 1_000)
  expect(once.busy).toBeCloseTo(0.1175, 4)
  let often = IDLE
  for (let check = 0; check < 4; check++) often = smooth(often, FULL, 250)
  expect(often.busy).toBeCloseTo(once.busy, 10)
  expect(waitShare(0)).toBe(0)
  expect(waitShare(100)).toBe(0.5)
})

/**
 * Runs nodes of these capacities (work in a second) behind a balancer. The balancer reads weights
 * once a second and deals `load` by them. The queue of a node is the work that it could not do.
 * Gives the weights of the last half.
 */
function run(capacities: readonly number[], load: number, seconds: number) {
  const nodes = capacities.map((capacity) => ({
    capacity,
    said: 100,
    pressure: IDLE,
    queue: 0,
    dealt: 100,
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

describe('nodes that report their weights', () => {
  test.each<[name: string, capacities: readonly number[], load: number]>([
    ['two equal nodes, half busy', [100, 100], 100],
    ['two equal nodes, almost busy', [100, 100], 190],
    ['two equal nodes, overloaded', [100, 100], 300],
    ['one node of half the speed', [100, 50], 110],
    ['one node of a third of the speed', [90, 30], 90],
    ['four nodes, one slow', [100, 100, 100, 40], 250],
    ['ten equal nodes', Array.from({ length: 10 }, () => 100), 800],
    ['ten nodes of different speeds', Array.from({ length: 10 }, (_, at) => 50 + 10 * at), 700],
  ])('reach stable weights: %s', (_name, capacities, load) => {
    const { late } = run(capacities, load, 120)
    for (const weights of late) expect(swing(weights)).toBeLessThanOrEqual(10)
  })

  test('leave less work undone on a slow node', () => {
    const { late, lost } = run([100, 50], 110, 120)
    expect(late[1]!.at(-1)).toBeLessThan(late[0]!.at(-1)!)
    // With equal shares five of 55 would wait in addition each second.
    expect(lost / late[0]!.length).toBeLessThan(50)
  })
})
