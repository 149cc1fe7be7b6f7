/** Upstreams that were away at the start say how deep they are once they answer. */
import { expect, test } from 'vitest'
import type { Beginner } from '../../../engine/sources/lazy/anew.ts'
import { createDepths, type Depth } from '../../../engine/sources/lazy/depth.ts'
import type { TrackerStatus } from '../../../engine/sources/upstream/tracker-types.ts'
import { createLateProbes } from '../../../workers/follower/begin.ts'

const PROVING: Depth = { state: 64, proofs: 64, takesHash: true }
const PLAIN: Depth = { state: 64, proofs: undefined, takesHash: true }
const onBug = (error: unknown) => {
  throw error
}

function open(answers: readonly string[], depth: Depth) {
  const clock = { at: 0, now: () => clock.at }
  const depths = createDepths('proven', [])
  const heads = new Map<string, number | undefined>()
  let looks = 0
  const beginner: Beginner = {
    async look() {
      looks++
      depths.set(answers.map((name) => ({ name, depth })))
    },
  }
  const told = () => [...heads].map(([name, head]) => ({ upstream: { name }, head }))
  const late = createLateProbes({ beginner, depths, told, clock })
  return { clock, depths, heads, late, looks: () => looks }
}

test('it is looked at once it has told its head, and not again', () => {
  const { clock, depths, heads, late, looks } = open(['a'], PROVING)
  late.probe(onBug)
  heads.set('a', undefined)
  late.probe(onBug)
  expect(looks()).toBe(0)
  heads.set('a', 7)
  late.probe(onBug)
  expect(looks()).toBe(1)
  expect(depths.deepest()).toBe(64)
  clock.at = 1_000_000
  late.probe(onBug)
  expect(looks()).toBe(1)
})

test('another one that comes later is looked at too, five seconds after the last look', () => {
  const { clock, heads, late, looks } = open(['a'], PROVING)
  heads.set('a', 7)
  late.probe(onBug)
  heads.set('b', 7)
  for (const at of [1, 4_999]) {
    clock.at = at
    late.probe(onBug)
  }
  expect(looks()).toBe(1)
  clock.at = 5_000
  late.probe(onBug)
  expect(looks()).toBe(2)
})

test('those that gave too little are looked at again once none else may be asked', () => {
  const { clock, depths, heads, late, looks } = open(['a', 'b'], PROVING)
  depths.set([
    { name: 'a', depth: PROVING },
    { name: 'b', depth: PLAIN },
  ])
  heads.set('a', 7).set('b', 7)
  late.probe(onBug)
  expect(looks()).toBe(0)
  heads.delete('a')
  late.probe(onBug)
  expect([looks(), depths.of('b')]).toEqual([1, PROVING])
  depths.set([{ name: 'b', depth: PLAIN }])
  for (const at of [59_999, 60_000]) {
    clock.at = at
    late.probe(onBug)
  }
  expect(looks()).toBe(2)
})

test('without proofs the status says why nothing is fetched', () => {
  const { heads, late, depths } = open(['a'], PLAIN)
  const status: TrackerStatus = {
    ...{ head: 7, canonical: 7, upstreams: [], degraded: [], halted: undefined },
    catchUp: undefined,
  }
  expect(late.statusWith(status)).toBe(status)
  heads.set('a', 7)
  late.probe(onBug)
  expect(depths.deepest()).toBe(undefined)
  expect(late.statusWith(status).degraded).toEqual([
    {
      text: 'a gives no proofs of its state (eth_getProof is refused), and nothing is taken without: start again with --trust-upstream, or give an --upstream with proofs',
      outside: 'no upstream gives the state that is fetched',
    },
  ])
})
