/**
 * Three replicas behind HAProxy must act as one service during faults. The replicas and their
 * shared parts are killed, stopped, drained and cut off. Every response is compared with the
 * sequencer's own chain.
 */
import { hasHaproxy } from './balancer.ts'
import { happen, KINDS, type Kind, type Scene } from './chaos/events.ts'
import { pause } from './chaos/observations.ts'
import { report } from './chaos/report.ts'
import { start } from './chaos/run.ts'
import { startWorld, type World } from './chaos/world.ts'
import type { Checks } from './section.ts'

const BETWEEN_MS = 10_000

export type ChaosOptions = {
  readonly seconds: number
  /** The random numbers of the events: the same for the same seed, however fast the clients are. */
  readonly random: () => number
  /** The random numbers of the clients. */
  readonly clientRandom: () => number
}

export async function chaos(checks: Checks, options: ChaosOptions): Promise<void> {
  if (!hasHaproxy()) {
    checks.skip('chaos', 'HAProxy is not installed (Debian: apt-get install haproxy)')
    return
  }
  let world: World
  try {
    world = await startWorld()
  } catch (error) {
    if (!(error as Error).message.includes('redis-server')) throw error
    checks.skip('chaos', 'Redis is not installed (Debian: apt-get install redis-server)')
    return
  }
  const { check } = checks
  check('HAProxy uses three replicas', await world.up(world.replicas.map(({ name }) => name)))
  const run = await start(world, options.clientRandom)
  const scene: Scene = {
    world,
    observations: run.observations,
    check,
    random: options.random,
    newReplica: undefined,
  }
  run.onScene(scene)
  const end = performance.now() + options.seconds * 1_000
  for (const kind of order(options.random)) {
    const started = performance.now()
    if (started > end) break
    check(`all readers have a replica before ${kind}`, await run.isSettled())
    await happen(scene, kind)
    await pause(Math.max(0, Math.min(started + BETWEEN_MS, end) - performance.now()))
  }
  await run.end()
  await report(checks, run)
  const codes = await world.stop()
  check(
    'all nodes end with 0',
    codes.every((code) => code === 0),
    String(codes),
  )
}

/** Yields each kind once, then each again in another order. */
function* order(random: () => number): Generator<Kind> {
  for (;;)
    for (const { kind } of KINDS.map((one) => ({ kind: one, at: random() })).toSorted(
      (a, b) => a.at - b.at,
    ))
      yield kind
}
