/** docs/operate/scale/compose.yaml: by the specification's schema, and by what the node and haproxy.cfg say of themselves. */
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

describe('by its schema', () => {
  test('nothing is wrong', () => expect(composeFaults(compose)).toEqual([]))

  const replica = { ...compose.services['replica-1'] }
  const planted: readonly (readonly [string, unknown])[] = [
    ['a field that is none', { ...replica, healthchek: {} }],
    ['a field that is none, inside', { ...replica, healthcheck: { intervall: '10s' } }],
    ['a list that is a number', { ...replica, ports: 8545 }],
    ['a time without a unit', { ...replica, healthcheck: { test: ['NONE'], interval: 10 } }],
    ['a limit that is a list', { ...replica, deploy: { resources: { limits: [] } } }],
  ]
  test.each(planted)('%s is found', (_, service) => {
    const faults = composeFaults({ ...compose, services: { replica: service } })
    expect(faults.join()).toContain('/services/replica')
  })
  test('a section that is none is found', () => {
    expect(composeFaults({ ...compose, service: {} })).not.toEqual([])
  })
})

describe('nodes are started with flags that they have', () => {
  test.each(nodes)('%s', (_, service) => {
    expect(commandFault(argvOf(service), service.environment!)).toBeUndefined()
  })
  const [, lazy] = nodes.find(([name]) => name === 'lazy-1')!
  test.each([
    ['a flag that is none', ['--fed=ws://10.24.0.10:8545/feed'], {}, '--feed'],
    ['a variable that is none', [], { FLASHNODE_DRAINMS: '1' }, 'FLASHNODE_DRAIN_MS'],
    ['a value that is none', ['--upstream-rate=many'], {}, '--upstream-rate'],
    ['flags that contradict', ['--state=whole', '--trust-upstream'], {}, 'takes nothing on trust'],
  ])('%s is found', (_, more, variables, said) => {
    const environment = { ...lazy.environment, ...(variables as Record<string, string>) }
    expect(commandFault([...argvOf(lazy), ...more], environment)).toContain(said)
  })
})

test('there is one of each form', () => {
  const commands = nodes.map(([, { command }]) => command!.join(' '))
  const count = (part: string) => commands.filter((one) => one.includes(part)).length
  expect(commands.every((one) => one.startsWith('follow '))).toBe(true)
  expect([count('--state=whole'), count('--state=lazy')]).toEqual([2, 2])
})

test('it runs this version', () => {
  for (const [, { image }] of nodes) expect(image).toBe(`flashnode:${version()}`)
})

test('HAProxy has the file beside it, and is told of every node', () => {
  const [source, target] = haproxy!.volumes![0]!.split(':')
  expect(existsSync(join(FOLDER, source!))).toBe(true)
  expect(target).toBe('/usr/local/etc/haproxy/haproxy.cfg')
  const told = Object.keys(haproxy!.environment!)
  expect(told.filter((name) => !haproxyVariables.has(name))).toEqual([])
  const servers = told.filter((name) => /^NODE\d$/.test(name))
  const port = fallbackOf('port')
  expect(servers.map((name) => haproxy!.environment![name]).toSorted()).toEqual(
    nodes.map(([, service]) => `${addressOf(service)}:${port}`).toSorted(),
  )
})

test('an address stays at its node for longer than a filter lives that nobody polls', () =>
  expect(haproxyStickMs).toBeGreaterThan(fallbackOf('limitFilterIdleMs') as number))

test('ports are those of haproxy.cfg', () => {
  const published = haproxy!.ports!.map((one) => one.split(':').at(-1))
  expect(published).toEqual([haproxyDefault('BIND').slice(1)])
  for (const [, { environment }] of nodes) {
    expect(environment!['FLASHNODE_AGENT_PORT']).toBe(haproxyDefault('NODE1_AGENT'))
    expect(environment!['FLASHNODE_AGENT_HOST']).toBe('0.0.0.0')
  }
})

test('HAProxy asks for readiness as the health check does', () => {
  const lag = haproxy!.environment!['MAX_LAG_MS']
  expect(lag).toBe(haproxyDefault('MAX_LAG_MS'))
  for (const [, { healthcheck }] of nodes)
    expect(healthcheck.test.at(-1)).toContain(`:${fallbackOf('port')}/readyz?maxLagMs=${lag}`)
})

test('who is named is there', () => {
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

test('a node that fetches its state has no limit at the nodes that it asks, and a client has', () => {
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
    '%s is locked up, bounded and looked at',
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

test('who is stopped has the time for it', () => {
  for (const [, { stop_grace_period, environment }] of nodes)
    expect(secondsOf(stop_grace_period) * 1_000).toBeGreaterThan(
      Number(environment!['FLASHNODE_DRAIN_MS']) + STOP_MS,
    )
  // hard-stop-after of haproxy.cfg.
  expect(secondsOf(haproxy!.stop_grace_period)).toBeGreaterThan(30)
})

test('there are files and processors for what is asked', () => {
  expect(haproxy!.ulimits.nofile.soft).toBeGreaterThan(2 * haproxyMaxConnections + 100)
  for (const [, { environment, deploy }] of nodes) {
    const threads = ['POOL', 'FRONT'].map((kind) =>
      Number(environment![`FLASHNODE_${kind}_THREADS`]),
    )
    expect(threads[0]! + threads[1]!).toBeLessThanOrEqual(Number(deploy.resources.limits.cpus))
  }
})
