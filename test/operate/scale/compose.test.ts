/**
 * Checks docs/operate/scale/compose.yaml against the schema of the specification, the node's own
 * flags and haproxy.cfg.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { addressRates } from '../../../rpc/limiter/address-rates.ts'
import { version } from '../../../workers/config/config.ts'
import { STOP_MS } from '../../../workers/process/lifecycle.ts'
import {
  commandFault,
  compose,
  FOLDER,
  fallbackOf,
  haproxyDefault,
  haproxyMaxConnections,
  haproxyStickMs,
  haproxyVariables,
  peersOf,
  type Service,
} from './manifests.ts'
import { composeFaults } from './schemas.ts'

const { haproxy, redis } = compose.services as Readonly<Record<string, Service>>
const nodes = Object.entries(compose.services).filter(([, { image }]) =>
  image.startsWith('flashnode:'),
)
const addressOf = ({ networks }: Service) => networks.nodes.ipv4_address
const argvOf = ({ command = [] }: Service) => command
const secondsOf = (text: string) => Number(/^(\d+)s$/.exec(text)![1])

describe('the schema of the Compose specification', () => {
  test('finds no fault in compose.yaml', () => expect(composeFaults(compose)).toEqual([]))

  const replica = { ...compose.services['replica-1'] }
  const planted: readonly (readonly [string, unknown])[] = [
    ['an unknown field', { ...replica, healthchek: {} }],
    ['an unknown field inside another', { ...replica, healthcheck: { intervall: '10s' } }],
    ['a number instead of a list', { ...replica, ports: 8545 }],
    ['a time without a unit', { ...replica, healthcheck: { test: ['NONE'], interval: 10 } }],
    ['a list instead of limits', { ...replica, deploy: { resources: { limits: [] } } }],
  ]
  test.each(planted)('the schema check finds %s', (_, service) => {
    const faults = composeFaults({ ...compose, services: { replica: service } })
    expect(faults.join()).toContain('/services/replica')
  })
  test('the schema check finds an unknown section', () => {
    expect(composeFaults({ ...compose, service: {} })).not.toEqual([])
  })
})

describe('the node accepts its command line and environment', () => {
  test.each(nodes)('%s', (_, service) => {
    expect(commandFault(argvOf(service), service.environment!)).toBeUndefined()
  })
  const [, lazy] = nodes.find(([name]) => name === 'lazy-1')!
  test.each([
    ['an unknown flag', ['--fed=ws://10.24.0.10:8545/feed'], {}, '--feed'],
    ['an unknown variable', [], { FLASHNODE_DRAINMS: '1' }, 'FLASHNODE_DRAIN_MS'],
    ['an invalid value', ['--upstream-rate=many'], {}, '--upstream-rate'],
    ['contradictory flags', ['--state=whole', '--trust-upstream'], {}, 'the node fetches no state'],
  ])('the node refuses %s', (_, more, variables, said) => {
    const environment = { ...lazy.environment, ...(variables as Record<string, string>) }
    expect(commandFault([...argvOf(lazy), ...more], environment)).toContain(said)
  })
})

test('two replicas have full state and two have lazy state', () => {
  const commands = nodes.map(([, { command }]) => command!.join(' '))
  const count = (part: string) => commands.filter((one) => one.includes(part)).length
  expect(commands.every((one) => one.startsWith('follow '))).toBe(true)
  expect([count('--state=whole'), count('--state=lazy')]).toEqual([2, 2])
})

test('every node runs the image of this version', () => {
  for (const [, { image }] of nodes) expect(image).toBe(`flashnode:${version()}`)
})

test('HAProxy mounts the haproxy.cfg of this folder and has the address of every node', () => {
  const [source, target] = haproxy!.volumes![0]!.split(':')
  expect(existsSync(join(FOLDER, source!))).toBe(true)
  expect(target).toBe('/usr/local/etc/haproxy/haproxy.cfg')
  const reported = Object.keys(haproxy!.environment!)
  expect(reported.filter((name) => !haproxyVariables.has(name))).toEqual([])
  const servers = reported.filter((name) => /^NODE\d$/.test(name))
  const port = fallbackOf('port')
  expect(servers.map((name) => haproxy!.environment![name]).toSorted()).toEqual(
    nodes.map(([, service]) => `${addressOf(service)}:${port}`).toSorted(),
  )
})

test('an address keeps its node for longer than an unpolled filter lives', () =>
  expect(haproxyStickMs).toBeGreaterThan(fallbackOf('limitFilterIdleMs') as number))

test('ports are the defaults of haproxy.cfg', () => {
  const published = haproxy!.ports!.map((one) => one.split(':').at(-1))
  expect(published).toEqual([haproxyDefault('BIND').slice(1)])
  for (const [, { environment }] of nodes) {
    expect(environment!['FLASHNODE_AGENT_PORT']).toBe(haproxyDefault('NODE1_AGENT'))
    expect(environment!['FLASHNODE_AGENT_HOST']).toBe('0.0.0.0')
  }
})

test('HAProxy and the health check ask /readyz with the same maxLagMs', () => {
  const lag = haproxy!.environment!['MAX_LAG_MS']
  expect(lag).toBe(haproxyDefault('MAX_LAG_MS'))
  for (const [, { healthcheck }] of nodes)
    expect(healthcheck.test.at(-1)).toContain(`:${fallbackOf('port')}/readyz?maxLagMs=${lag}`)
})

test('every peer, proxy, Redis address and volume that a node names exists', () => {
  const addresses = new Map(nodes.map(([name, service]) => [addressOf(service), name]))
  for (const [name, service] of nodes) {
    const peers = peersOf(service.command!)
    for (const { hostname, port } of peers) {
      expect(port).toBe(String(fallbackOf('port')))
      expect(addresses.get(hostname)).toBeDefined()
      expect(addresses.get(hostname)).not.toBe(name)
    }
    expect(service.environment!['FLASHNODE_TRUST_PROXY']).toBe(addressOf(haproxy!))
    for (const key of ['FLASHNODE_LIMIT_STORE', 'FLASHNODE_SHARE_TRANSACTIONS'])
      expect(service.environment![key]).toBe(`redis://${addressOf(redis!)}`)
    expect(compose.volumes).toHaveProperty(service.volumes![0]!.split(':')[0]!)
    expect(service.volumes![0]!.split(':')[1]).toBe(service.environment!['FLASHNODE_DATADIR'])
  }
  const own = Object.values(compose.services).map(addressOf)
  expect(new Set(own).size).toBe(own.length)
})

test('upstreams exempt lazy nodes from the rate limit, but not clients behind HAProxy', () => {
  const rateFlag = '--rate-limit-of='
  const rates = nodes.map(([, { command = [] }]) =>
    addressRates(
      command.flatMap((one) => (one.startsWith(rateFlag) ? [one.slice(rateFlag.length)] : [])),
    ),
  )
  const addresses = nodes.map(([, service]) => addressOf(service))
  const upstreams = (service: Service) =>
    service.command!.find((one) => one.startsWith('--upstream='))!.match(/10\.[\d.]+/g)!
  for (const [, service] of nodes.filter(([, { command }]) => command!.includes('--state=lazy')))
    for (const upstream of upstreams(service)) {
      const rateOf = rates[addresses.indexOf(upstream)]!
      expect(rateOf(addressOf(service))).toBe('off')
      expect(rateOf(addressOf(haproxy!))).toBeUndefined()
    }
})

describe('every service', () => {
  test.each(Object.entries(compose.services))(
    '%s has no privileges, resource limits and a health check',
    (_, one) => {
      expect(one.read_only).toBe(true)
      expect(one.cap_drop).toEqual(['ALL'])
      expect(one.security_opt).toEqual(['no-new-privileges:true'])
      expect(one.healthcheck.test.length).toBeGreaterThan(1)
      const { cpus, memory, pids } = one.deploy.resources.limits
      expect([Number(cpus) > 0, /^\d+[MG]$/.test(memory), pids > 0]).toEqual([true, true, true])
    },
  )
})

test('the stop grace period is longer than drain and stop take', () => {
  for (const [, { stop_grace_period, environment }] of nodes)
    expect(secondsOf(stop_grace_period) * 1_000).toBeGreaterThan(
      Number(environment!['FLASHNODE_DRAIN_MS']) + STOP_MS,
    )
  // hard-stop-after of haproxy.cfg is 30 s.
  expect(secondsOf(haproxy!.stop_grace_period)).toBeGreaterThan(30)
})

test('files and processors suffice for the configured connections and threads', () => {
  expect(haproxy!.ulimits.nofile.soft).toBeGreaterThan(2 * haproxyMaxConnections + 100)
  for (const [, { environment, deploy }] of nodes) {
    const threads = ['POOL', 'FRONT'].map((kind) =>
      Number(environment![`FLASHNODE_${kind}_THREADS`]),
    )
    expect(threads[0]! + threads[1]!).toBeLessThanOrEqual(Number(deploy.resources.limits.cpus))
  }
})
