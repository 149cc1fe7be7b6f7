/**
 * Third-party sets run through HAProxy on three replicas: viem, ethers and the flashblocks checkers
 * must see what one node shows. Each set has its own address, so that the sets use several replicas
 * at a time. Each set sees the transactions of the others.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { KEYS } from '../../kit/node.ts'
import { hasHaproxy } from './balancer.ts'
import { startWorld } from './chaos/world.ts'
import { dealt } from './dealt.ts'
import { type From, from } from './from.ts'
import type { Checks } from './section.ts'

const directory = process.env['CONFORMANCE_DIR'] ?? '../shared/conformance'
const EXPECTED = ['--expect-fail', 'test/outside/conformance.expect']

export async function conformance(checks: Checks): Promise<void> {
  const { check, skip } = checks
  if (!existsSync(`${directory}/run.sh`)) {
    skip('conformance sets', `no ${directory}/run.sh (set CONFORMANCE_DIR)`)
    return
  }
  if (!hasHaproxy()) {
    skip('conformance sets', 'HAProxy is not installed (Debian: apt-get install haproxy)')
    return
  }
  const world = await startWorld()
  check('HAProxy uses three replicas', await world.up(world.replicas.map(({ name }) => name)))
  const clients: From[] = []
  const addresses = dealt(world, 30)
  const open = async () => {
    const client = await from((await addresses.next()).value, world.balancer.port)
    clients.push(client)
    return client
  }
  await coherence(checks, await open())
  await together(checks, open)
  await subscribed(checks, open)
  const stuck = await world.balancer.stuck()
  const servers = new Set(
    [...stuck].filter(([address]) => address.startsWith('127.0.30.')).map(([, server]) => server),
  )
  check('the sets used all three replicas', servers.size === 3, [...servers].toSorted().join())
  for (const client of clients) client.close()
  const codes = await world.stop()
  check(
    'all nodes end with 0',
    codes.every((code) => code === 0),
    String(codes),
  )
}

const coherence = (checks: Checks, { url }: From): Promise<void> =>
  set(checks, 'fb-coherence', [
    ...['fb-coherence', '--standard', `${url}/`, '--flashblocks', `${url}/flashblocks`],
    ...['--tps', '30', '--seconds', '60'],
  ])

/** Runs sets at the same time, so that each sees transactions that were sent at other replicas. */
async function together(checks: Checks, open: () => Promise<From>): Promise<void> {
  const subscriptions = await open()
  const sets = [
    set(checks, 'fb-subscriptions', [
      ...['fb-subscriptions', '--ws', `${subscriptions.url.replace('http', 'ws')}/flashblocks`],
      ...['--http', `${subscriptions.url}/flashblocks`, '--key', KEYS[1]],
    ]),
  ]
  const keys = KEYS.slice(2).values()
  for (const client of ['viem', 'ethers'] as const)
    for (const path of ['/', '/flashblocks']) {
      const { url } = await open()
      const skipped = path === '/' ? [] : ['--skip', LATE[client].flow]
      sets.push(
        set(checks, `${client} on ${path}`, [
          ...[client, '--url', `${url}${path}`, '--key', keys.next().value!],
          ...[...EXPECTED, ...skipped],
        ]),
      )
    }
  await Promise.all(sets)
}

/**
 * Logs are canonical in subscriptions and filters. These flows wait about a second after a receipt,
 * which is preconfirmed.
 */
const LATE = {
  viem: { flow: 'ws-logs,watch-http', before: 'deploy' },
  ethers: { flow: 'ws-event', before: 'deploy,write' },
} as const

async function subscribed(checks: Checks, open: () => Promise<From>): Promise<void> {
  for (const [at, client] of (['viem', 'ethers'] as const).entries()) {
    const { flow, before } = LATE[client]
    const { url } = await open()
    await set(checks, `${client} on /flashblocks, ${flow}`, [
      ...[client, '--url', `${url}/flashblocks`, '--key', KEYS[at + 2]!, ...EXPECTED],
      ...['--only', `${before},${flow}`, '--confirmations', '2'],
    ])
  }
}

/** Runs a set, whose own closing line is the result. */
async function set({ check }: Checks, title: string, args: readonly string[]): Promise<void> {
  const child = spawn(`${directory}/run.sh`, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  for await (const chunk of child.stdout) output += chunk
  const [, passed, failed] = /(\d+) passed, (\d+) failed(?:, \d+ skipped)?\s*$/.exec(output) ?? []
  const isRight = Number(failed) === 0 && Number(passed) > 0
  if (!isRight) console.log(output)
  check(title, isRight, output.trim().split('\n').at(-1))
}
