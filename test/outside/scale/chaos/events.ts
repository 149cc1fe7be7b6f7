/**
 * These events happen to one of the replicas, or to their shared parts; each ends when everything
 * is restored.
 */
import { once } from 'node:events'
import type { Check } from '../../../kit/checks.ts'
import { type Happening, type Observations, pause } from './observations.ts'
import type { Replica } from './replica.ts'
import type { World } from './world.ts'

export const KINDS = ['kill', 'stop', 'drain', 'cut', 'redis', 'new'] as const
export type Kind = (typeof KINDS)[number]

export type Scene = {
  readonly world: World
  readonly observations: Observations
  readonly check: Check
  readonly random: () => number
  /** The replica `node4`, while it exists. */
  newReplica: Replica | undefined
}

const STOPPED_MS = 5_000
const CUT_MS = 3_000
const REDIS_DOWN_MS = 3_000
const NEW_FOR_MS = 3_000
const END_MS = 20_000

/** Runs an event; resolves when HAProxy uses all replicas again. */
export async function happen(scene: Scene, kind: Kind): Promise<void> {
  const { world, observations, random, check } = scene
  const replica = world.replicas[Math.floor(random() * world.replicas.length)]!
  await EVENTS[kind](scene, replica)
  const names = world.replicas.map(({ name }) => name)
  const isUp = await world.up(names)
  if (!isUp)
    check(`after ${kind} HAProxy uses all replicas again`, false, String(await world.upNow()))
  const last = observations.happenings.at(-1)!
  console.log(
    `     ${kind} ${last.node}: ${observations.seconds(last.from)} to ${observations.seconds(last.to)}, all there at ${observations.seconds(performance.now())}`,
  )
}

type Event = (scene: Scene, replica: Replica) => Promise<void>

async function recorded(
  { observations }: Scene,
  what: { readonly kind: Kind; readonly node: string; readonly stuck?: ReadonlySet<string> },
  work: (happening: Happening) => Promise<unknown>,
): Promise<void> {
  const happening: Happening = { ...what, from: performance.now(), to: Number.POSITIVE_INFINITY }
  observations.happenings.push(happening)
  await work(happening)
  happening.to = performance.now()
}

const EVENTS: Readonly<Record<Kind, Event>> = {
  async kill(scene, replica) {
    const { name: node } = replica
    const all = await scene.world.balancer.stuck()
    const stuck = new Set([...all].filter(([, name]) => name === node).map(([address]) => address))
    await recorded(scene, { kind: 'kill', node, stuck }, async (happening) => {
      await replica.node.stop('SIGKILL')
      happening.gone = performance.now()
      await replica.restart()
    })
  },

  stop: (scene, { name: node, node: { child } }) =>
    recorded(scene, { kind: 'stop', node }, async () => {
      child.kill('SIGSTOP')
      await pause(STOPPED_MS)
      child.kill('SIGCONT')
    }),

  drain: (scene, replica) =>
    recorded(scene, { kind: 'drain', node: replica.name }, async () => {
      await endInOrder(scene, replica)
      await replica.restart()
    }),

  cut: (scene, { name: node, line }) =>
    recorded(scene, { kind: 'cut', node }, async () => {
      line.shut()
      await pause(CUT_MS)
      line.open()
    }),

  redis: (scene) =>
    recorded(scene, { kind: 'redis', node: '' }, async () => {
      scene.world.redis.kill()
      await pause(REDIS_DOWN_MS)
      await scene.world.redis.restart()
    }),

  async new(scene) {
    const { world, check } = scene
    await recorded(scene, { kind: 'new', node: 'node4' }, async () => {
      const replica = await world.startNew()
      scene.newReplica = replica
      check('HAProxy uses a new replica', await world.up([replica.name]))
      await pause(NEW_FOR_MS)
      await endInOrder(scene, replica)
      scene.newReplica = undefined
      replica.line.close()
    })
  },
}

async function endInOrder({ check }: Scene, { name, node }: Replica): Promise<void> {
  const ended = once(node.child, 'exit')
  node.child.kill('SIGTERM')
  const [code] = (await Promise.race([ended, pause(END_MS).then(() => ['nothing'])])) as [unknown]
  check(`${name} ends with 0 after a drain`, code === 0, String(code))
}
