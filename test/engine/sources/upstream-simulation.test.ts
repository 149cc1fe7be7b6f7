/**
 * The tracker runs under seeded histories: upstreams that lag, lie, hang, fail and flicker, reorgs
 * of 1 to 70 blocks, restarts.
 */
import { describe, expect, test } from 'vitest'
import { ancestor, FAULTS, UNDO_BLOCKS, UpstreamWorld } from '../../fixtures/upstream-world.ts'

const SEEDS = Number(process.env['SIMULATION_RUNS'] ?? 200)
const FROM = Number(process.env['SIMULATION_FROM'] ?? 1)

/** Runs faults for two minutes, then none, until every backoff has ended. */
function history(seed: number): UpstreamWorld {
  const world = new UpstreamWorld(seed)
  const { upstreams } = world
  for (let step = 0; step < 24; step++) {
    world.run(world.now + 5_000)
    for (const at of upstreams.keys())
      if (world.below(4) === 0) world.fault(at, faultFor(world, at))
    if (seed % 3 === 0 && step >= seed % 20) leaveChain(world, (seed / 3) % upstreams.length)
    if (world.below(6) === 0) world.reorg(1 + world.below(world.below(4) === 0 ? 70 : 8))
    if (world.below(20) === 0) world.start()
  }
  for (const at of upstreams.keys()) world.fault(at, 'none')
  world.run(world.now + 150_000)
  return world
}

const isLie = (one: string) => ['forks', 'spoils', 'leaves', 'foreign'].includes(one)

/**
 * Draws a fault. Fewer than half of the upstreams lie at a time, and never the first of two. Such a
 * lie could not be recognized.
 */
function faultFor(world: UpstreamWorld, at: number) {
  const fault = FAULTS[world.below(FAULTS.length)]!
  const liars = world.upstreams.filter((one, index) => index !== at && isLie(one.fault)).length
  const isReported = world.upstreams.length === 3 ? liars === 0 : at === 1
  return isLie(fault) && !isReported ? 'none' : fault
}

/**
 * Moves one of three upstreams to another chain while neither of the others lies, so that they can
 * outvote it. A reorg makes the tracker poll all of them.
 */
function leaveChain(world: UpstreamWorld, at: number): void {
  const others = world.upstreams.filter((_, index) => index !== at)
  const isLeft = ['leaves', 'foreign'].includes(world.upstreams[at]!.fault)
  if (isLeft || others.length < 2 || others.some(({ fault }) => isLie(fault))) return
  world.fault(at, 'leaves')
  world.reorg(1 + world.below(8))
}

/** Counts our blocks that the chain does not have. */
function lost({ canonical, head }: UpstreamWorld): number {
  let at = canonical
  while (ancestor(head, at.number)?.hash !== at.hash) at = at.parent!
  return canonical.number - at.number
}

describe('seeded histories of the tracker', () => {
  const seen = new Map<string, number>()
  test(`end on the chain in all ${SEEDS} runs`, () => {
    for (let seed = FROM; seed < FROM + SEEDS; seed++) {
      const world = history(seed)
      for (const [what, by] of world.counts) seen.set(what, (seen.get(what) ?? 0) + by)
      const label = `seed ${seed}`
      if (world.halted?.why === 'deep') expect(lost(world), label).toBeGreaterThan(UNDO_BLOCKS)
      else {
        expect(world.halted, label).toBeUndefined()
        expect(ancestor(world.head, world.canonical.number)?.hash, label).toBe(world.canonical.hash)
        expect(world.head.number - world.canonical.number, label).toBeLessThan(4)
      }
    }
  })
  test('include every fault that they are meant to test', () => {
    for (const what of [
      ...(['upstream_rests', 'upstream_limited', 'upstream_disagrees', 'upstream_reorgs'] as const),
      ...(['upstream_refused_blocks', 'deep', 'refused'] as const),
      ...(['poll', 'fetch', 'ask'] as const).flatMap((question) =>
        ['foreign', 'silent', 'broken', 'unreachable', 'limited'].map(
          (end) => `${question} ${end}`,
        ),
      ),
      ...(['poll head', 'fetch blocks', 'ask hash'] as const),
    ])
      expect(seen.get(what) ?? 0, what).toBeGreaterThan(0)
  })
})
