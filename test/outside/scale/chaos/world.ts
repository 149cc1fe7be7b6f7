/**
 * The world has a sequencer, three replicas behind HAProxy with the file that operators get, and
 * Redis.
 */
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../kit/free-port.ts'
import { type RunningNode, startNode } from '../../../kit/node.ts'
import { startRedis } from '../../../kit/redis.ts'
import { cuttable } from '../../follow/cuts.ts'
import { temporary, until } from '../../follow/nodes.ts'
import { type Balancer, startBalancer } from '../balancer.ts'
import { bootstrap } from './bootstrap.ts'
import { type Replica, startReplica } from './replica.ts'

/** The points a second of the caller who exceeds the limit. */
export const LIMIT = 100
export const KEY = 'greedy-0123456789abcdef'
/** Followers start in seconds; a loaded machine takes longer. */
const UP_MS = 60_000

export type World = {
  readonly dev: RunningNode
  readonly balancer: Balancer
  readonly replicas: readonly [Replica, Replica, Replica]
  readonly redis: { kill(): void; restart(): Promise<void> }
  /** Waits until HAProxy uses all of these. */
  up(names: readonly string[]): Promise<boolean>
  upNow(): Promise<readonly string[]>
  /** Starts the new replica `node4` and adds it to the world. */
  startNew(): Promise<Replica>
  stop(): Promise<readonly (number | NodeJS.Signals)[]>
}

export async function startWorld(): Promise<World> {
  const redisPort = await freePort()
  let redis: ChildProcess = await startRedis(redisPort)
  const devDir = temporary('chaos-dev')
  const dev = await startNode([
    ...['--datadir', devDir, '--rate-limit', 'off', '--pool-threads', '2'],
  ])
  const token = randomBytes(16).toString('hex')
  const tokenFile = join(temporary('chaos-token'), 'token')
  writeFileSync(tokenFile, `${token}\n`)
  const shared = sharedFlags(dev, { genesis: join(devDir, 'genesis.json'), redisPort, tokenFile })
  const start = async (name: string, datadir = temporary(`chaos-${name}`)) =>
    startReplica({
      name,
      datadir,
      shared,
      line: await cuttable(Number(new URL(dev.url).port)),
      port: await portOf(name),
      agentPort: await portOf(`${name} agent`),
      adminPort: await freePort(),
    })
  const ports = new Map<string, Promise<number>>()
  const portOf = (what: string): Promise<number> => {
    const known = ports.get(what) ?? freePort()
    ports.set(what, known)
    return known
  }
  const replicas = [await start('node1'), await start('node2'), await start('node3')] as const
  const balancer = await startBalancer(temporary('chaos-haproxy'), await environment(portOf))
  const upNow = async () =>
    Object.entries(await balancer.stats())
      .filter(([, { status }]) => status.startsWith('UP'))
      .map(([name]) => name)
  const up = (names: readonly string[]) =>
    until(async () => {
      const those = await upNow()
      return names.every((name) => those.includes(name))
    }, UP_MS)
  return {
    dev,
    balancer,
    replicas,
    up,
    upNow,
    redis: {
      kill: () => void redis.kill('SIGKILL'),
      async restart() {
        redis = await startRedis(redisPort)
      },
    },
    async startNew() {
      const datadir = temporary('chaos-new')
      await bootstrap(replicas[0].url, datadir, tokenFile)
      return start('node4', datadir)
    },
    async stop() {
      const codes: (number | NodeJS.Signals)[] = []
      for (const { node } of replicas) codes.push(await node.stop())
      codes.push(await dev.stop())
      await balancer.stop()
      redis.kill('SIGKILL')
      for (const { line } of replicas) line.close()
      return codes
    },
  }
}

async function environment(portOf: (what: string) => Promise<number>) {
  const env: Record<string, string> = {}
  for (const at of [1, 2, 3, 4]) {
    env[`NODE${at}`] = `127.0.0.1:${await portOf(`node${at}`)}`
    env[`NODE${at}_AGENT`] = String(await portOf(`node${at} agent`))
  }
  return env
}

function sharedFlags(
  dev: RunningNode,
  by: { readonly genesis: string; readonly redisPort: number; readonly tokenFile: string },
): readonly string[] {
  const folder = temporary('chaos-keys')
  const keys = join(folder, 'keys.json')
  writeFileSync(keys, JSON.stringify({ greedy: { key: KEY, rateLimit: LIMIT } }))
  const redis = `redis://127.0.0.1:${by.redisPort}`
  return [
    ...['--chain', by.genesis, '--state', 'whole', '--upstream', `${dev.url}/`],
    ...['--upstream-rate', '1000', '--pool-threads', '2', '--trust-proxy', '127.0.0.1/32'],
    ...['--rate-limit-of', '127.0.0.0/8=off', '--api-keys', keys],
    ...['--bootstrap-token-file', by.tokenFile],
    ...['--limit-store', redis, '--share-transactions', redis],
  ]
}
