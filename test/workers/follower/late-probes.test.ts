/** Upstreams that were down at the start report their depth once they respond. */
import { expect, test } from 'vitest'
import { createDepths, type Depth } from '../../../engine/sources/lazy/depth.ts'
import type { Resyncer } from '../../../engine/sources/lazy/resync.ts'
import type { TrackerStatus } from '../../../engine/sources/upstream/tracker-types.ts'
import { createLateProbes } from '../../../workers/follower/resync.ts'

const PROVING: Depth = { state: 64, proofs: 64, takesHash: true }
const PLAIN: Depth = { state: 64, proofs: undefined, takesHash: true }
const onBug = (error: unknown) => {
  throw error
}

function open(responses: readonly string[], depth: Depth) {
  const clock = { at: 0, now: () => clock.at }
  const depths = createDepths('proven', [])
  const heads = new Map<string, number | undefined>()
  let checks = 0
  const beginner: Resyncer = {
    async check() {
      checks++
      depths.set(responses.map((name) => ({ name, depth })))
    },
  }
  const askable = () => [...heads].map(([name, head]) => ({ upstream: { name }, head }))
  const late = createLateProbes({ beginner, depths, askable, clock })
  return { clock, depths, heads, late, checks: () => checks }
}

test('a late upstream is probed once, after it has reported its head', () => {
  const { clock, depths, heads, late, checks } = open(['a'], PROVING)
  late.probe(onBug)
  heads.set('a', undefined)
  late.probe(onBug)
  expect(checks()).toBe(0)
  heads.set('a', 7)
  late.probe(onBug)
  expect(checks()).toBe(1)
  expect(depths.deepest()).toBe(64)
  clock.at = 1_000_000
  late.probe(onBug)
  expect(checks()).toBe(1)
})

test('another late upstream is probed five seconds after the last probe', () => {
  const { clock, heads, late, checks } = open(['a'], PROVING)
  heads.set('a', 7)
  late.probe(onBug)
  heads.set('b', 7)
  for (const at of [1, 4_999]) {
    clock.at = at
    late.probe(onBug)
  }
  expect(checks()).toBe(1)
  clock.at = 5_000
  late.probe(onBug)
  expect(checks()).toBe(2)
})

test('upstreams without proofs are probed again when no other one can be asked', () => {
  const { clock, depths, heads, late, checks } = open(['a', 'b'], PROVING)
  depths.set([
    { name: 'a', depth: PROVING },
    { name: 'b', depth: PLAIN },
  ])
  heads.set('a', 7).set('b', 7)
  late.probe(onBug)
  expect(checks()).toBe(0)
  heads.delete('a')
  late.probe(onBug)
  expect([checks(), depths.of('b')]).toEqual([1, PROVING])
  depths.set([{ name: 'b', depth: PLAIN }])
  for (const at of [59_999, 60_000]) {
    clock.at = at
    late.probe(onBug)
  }
  expect(checks()).toBe(2)
})

test('the status without proofs says why no state is fetched', () => {
  const { heads, late, depths } = open(['a'], PLAIN)
  const status: TrackerStatus = {
    head: 7,
    canonical: 7,
    upstreams: [],
    degraded: [],
    halted: undefined,
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
