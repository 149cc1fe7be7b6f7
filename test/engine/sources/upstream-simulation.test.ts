/** The tracker under seeded histories: upstreams that lag, lie, hang, fail and flicker, reorgs of 1 to 70 blocks, restarts. */
import { describe, expect, test } from 'vitest'
import { ancestor, FAULTS, UNDO_BLOCKS, UpstreamWorld } from '../../fixtures/upstream-world.ts'

const SEEDS = Number(process.env['SIMULATION_RUNS'] ?? 200)
const FROM = Number(process.env['SIMULATION_FROM'] ?? 1)

/** Faults for two minutes, then none, and time for every rest to end. */
function history(seed: number): UpstreamWorld {
  const world = new UpstreamWorld(seed)
  const { upstreams } = world
  for (let step = 0; step < 24; step++) {
    world.run(world.now + 5_000)
    for (const at of upstreams.keys())
      if (world.below(4) === 0) world.fault(at, faultFor(world, at))
    if (world.below(6) === 0) world.reorg(1 + world.below(world.below(4) === 0 ? 70 : 8))
    if (world.below(20) === 0) world.start()
  }
  for (const at of upstreams.keys()) world.fault(at, 'none')
  world.run(world.now + 150_000)
  return world
}

/** Fewer than half of them lie at a time, and not the first of two: then nobody could tell. */
function faultFor(world: UpstreamWorld, at: number) {
  const fault = FAULTS[world.below(FAULTS.length)]!
  const isLie = (one: string) => one === 'forks' || one === 'spoils'
  const liars = world.upstreams.filter((one, index) => index !== at && isLie(one.fault)).length
  const isTold = world.upstreams.length === 3 ? liars === 0 : at === 1
  return isLie(fault) && !isTold ? 'none' : fault
}

/** Blocks of ours that the chain does not have. */
function lost({ canonical, head }: UpstreamWorld): number {
  let at = canonical
  while (ancestor(head, at.number)?.hash !== at.hash) at = at.parent!
  return canonical.number - at.number
}

describe('histories', () => {
  const seen = new Map<string, number>()
  test(`${SEEDS} of them end on the chain`, { timeout: 60_000 }, () => {
    for (let seed = FROM; seed < FROM + SEEDS; seed++) {
      const world = history(seed)
      for (const [what, by] of world.counts) seen.set(what, (seen.get(what) ?? 0) + by)
      const place = `seed ${seed}`
      if (world.halted?.why === 'deep') expect(lost(world), place).toBeGreaterThan(UNDO_BLOCKS)
      else {
        expect(world.halted, place).toBeUndefined()
        expect(ancestor(world.head, world.canonical.number)?.hash, place).toBe(world.canonical.hash)
        expect(world.head.number - world.canonical.number, place).toBeLessThan(4)
      }
    }
  })
  test('have met what they are for', () => {
    for (const what of [
      ...(['upstream_rests', 'upstream_limited', 'upstream_disagrees', 'upstream_reorgs'] as const),
      ...(['upstream_refused_blocks', 'deep', 'refused'] as const),
    ])
      expect(seen.get(what) ?? 0, what).toBeGreaterThan(0)
  })
})
