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
    if (seed % 3 === 0 && step >= seed % 20) leaveChain(world, (seed / 3) % upstreams.length)
    if (world.below(6) === 0) world.reorg(1 + world.below(world.below(4) === 0 ? 70 : 8))
    if (world.below(20) === 0) world.start()
  }
  for (const at of upstreams.keys()) world.fault(at, 'none')
  world.run(world.now + 150_000)
  return world
}

const isLie = (one: string) => ['forks', 'spoils', 'leaves', 'foreign'].includes(one)

/** Fewer than half of them lie at a time, and not the first of two: then nobody could tell. */
function faultFor(world: UpstreamWorld, at: number) {
  const fault = FAULTS[world.below(FAULTS.length)]!
  const liars = world.upstreams.filter((one, index) => index !== at && isLie(one.fault)).length
  const isTold = world.upstreams.length === 3 ? liars === 0 : at === 1
  return isLie(fault) && !isTold ? 'none' : fault
}

/**
 * One of three is of another chain from now on, while neither of the others lies: they can tell who is right. A reorg has all of them
 * asked.
 */
function leaveChain(world: UpstreamWorld, at: number): void {
  const others = world.upstreams.filter((_, index) => index !== at)
  const isLeft = ['leaves', 'foreign'].includes(world.upstreams[at]!.fault)
  if (isLeft || others.length < 2 || others.some(({ fault }) => isLie(fault))) return
  world.fault(at, 'leaves')
  world.reorg(1 + world.below(8))
}

/** Blocks of ours that the chain does not have. */
function lost({ canonical, head }: UpstreamWorld): number {
  let at = canonical
  while (ancestor(head, at.number)?.hash !== at.hash) at = at.parent!
  return canonical.number - at.number
}

describe('histories', () => {
  const seen = new Map<string, number>()
  test(`${SEEDS} of them end on the chain`, () => {
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
