/** Checks docs/operate/scale/kubernetes against the schemas of the API and the node's own flags. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { version } from '../../../workers/config/config.ts'
import { STOP_MS } from '../../../workers/process/lifecycle.ts'
import {
  type Container,
  commandFault,
  FOLDER,
  fallbackOf,
  haproxyDefault,
  isPartOf,
  kubernetes,
  type Labels,
  type Manifest,
  ofKind,
  peersOf,
} from './manifests.ts'
import { kubernetesFaults } from './schemas.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-kubernetes-'))
afterAll(() => rmSync(folder, { recursive: true }))
const KEY = 'k'.repeat(32)
const SECRETS: Labels = {
  'upstream-key': KEY,
  'api-keys.json': JSON.stringify({ lazy: { key: KEY, rateLimit: 'off' } }),
}
for (const [name, text] of Object.entries(SECRETS)) writeFileSync(join(folder, name), text)

const named = (manifest: Manifest): [string, Manifest] => [
  `${manifest.kind} ${manifest.metadata.name}`,
  manifest,
]
const find = (kind: string, name: string): Manifest =>
  ofKind(kind).find(({ metadata }) => metadata.name === name)!
const workloads = ofKind('StatefulSet', 'Deployment')
const labelsOf = ({ spec }: Manifest): Labels => spec.template.metadata.labels
const containersOf = ({ spec }: Manifest) => spec.template.spec.containers
const nodeOf = (workload: Manifest): Container =>
  containersOf(workload).find(({ name }) => name === 'node')!
const nodes = workloads.filter((one) => nodeOf(one) !== undefined)
const selected = (selector: Labels) => workloads.filter((one) => isPartOf(selector, labelsOf(one)))
/** Returns the minimum number of replicas at any time. */
const replicasOf = ({ spec, metadata }: Manifest): number =>
  spec.replicas ??
  ofKind('HorizontalPodAutoscaler').find((one) => one.metadata.name === metadata.name)!.spec
    .minReplicas

/** Builds the environment as the kubelet does. */
function environmentOf({ envFrom = [], env = [] }: Container): Labels {
  const found: Record<string, string> = {}
  for (const { configMapRef } of envFrom)
    Object.assign(found, find('ConfigMap', configMapRef.name).data)
  for (const { name, value, valueFrom } of env)
    found[name] =
      valueFrom === undefined
        ? value!.replaceAll(/\$\((\w+)\)/g, (_, inner: string) => found[inner]!)
        : SECRETS[valueFrom.secretKeyRef.key]!
  return found
}
const argvOf = ({ args = [] }: Container) =>
  args.map((one) => one.replace('/etc/flashnode', folder))

describe('the schemas of the API', () => {
  test('there are manifests of every expected kind', () => {
    const kinds = [
      ...['ConfigMap', 'Deployment', 'HorizontalPodAutoscaler', 'NetworkPolicy'],
      ...['PodDisruptionBudget', 'PodMonitor', 'PrometheusRule', 'Service', 'StatefulSet'],
    ]
    expect([...new Set(kubernetes.map(({ kind }) => kind))].toSorted()).toEqual(kinds)
  })
  test.each(kubernetes.map(named))('find no fault in %s', (_, { file: __, ...document }) => {
    expect(kubernetesFaults(document)).toEqual([])
  })

  /** Name, kind of document, text in the first such document, its replacement, expected fault. */
  const planted: readonly (readonly [string, string, string, string, string])[] = [
    ['an unknown field', 'StatefulSet', '"serviceName"', '"servicename"', 'unknown field'],
    ['a missing field', 'StatefulSet', '"selector"', '"selektor"', '/spec'],
    ['an unknown field of a probe', 'Deployment', '"path"', '"pfad"', '/httpGet/pfad'],
    ['an unknown field of a volume', 'Deployment', '"sizeLimit"', '"size"', '/emptyDir/size'],
    [
      'a text instead of a number',
      'StatefulSet',
      '"replicas":2',
      '"replicas":"two"',
      '/spec/replicas',
    ],
    [
      'a text instead of true',
      'Deployment',
      '"runAsNonRoot":true',
      '"runAsNonRoot":"yes"',
      'runAs',
    ],
    ['a map instead of a list', 'Service', '"ports":[', '"ports":{},"x":[', '/spec/ports'],
    [
      'a map instead of a number',
      'HorizontalPodAutoscaler',
      '"minReplicas":2',
      '"minReplicas":{}',
      'min',
    ],
    ['an unknown field of a policy', 'NetworkPolicy', '"ingress"', '"ingres"', '/spec/ingres:'],
    [
      'an unknown field of a budget',
      'PodDisruptionBudget',
      '"minAvailable"',
      '"minAvail"',
      'minAvail:',
    ],
    ['an unknown field of a monitor', 'PodMonitor', '"interval"', '"intervall"', 'intervall'],
    ['an unknown field of a rule', 'PrometheusRule', '"expr"', '"expression"', 'expression'],
    ['a number in a ConfigMap', 'ConfigMap', '"xlayer"', '196', '/data/FLASHNODE_CHAIN'],
    ['an unknown version', 'Service', '"v1"', '"v9"', 'no schema'],
  ]
  test.each(planted)('the schema check finds %s', (_, kind, from, to, said) => {
    const { file: __, ...document } = ofKind(kind).find((one) =>
      JSON.stringify(one).includes(from),
    )!
    const changed = JSON.parse(JSON.stringify(document).replace(from, to)) as unknown
    expect(kubernetesFaults(document)).toEqual([])
    expect(kubernetesFaults(changed).join('\n')).toContain(said)
  })
})

describe('the node accepts its command line and environment', () => {
  test.each(nodes.map(named))('%s', (_, workload) => {
    const node = nodeOf(workload)
    expect(commandFault(argvOf(node), environmentOf(node))).toBeUndefined()
  })
  const lazy = nodeOf(find('Deployment', 'flashnode-lazy'))
  test.each([
    ['an unknown flag', ['--lazy-cashe=100'], {}, '--lazy-cache'],
    ['an unknown variable', [], { FLASHNODE_DRAINMS: '1' }, 'FLASHNODE_DRAIN_MS'],
    [
      'the variable that a Service named flashnode would set',
      [],
      { FLASHNODE_PORT: 'tcp://10.0.0.1:8545' },
      'PORT',
    ],
    ['contradictory flags', ['--state=whole', '--trust-upstream'], {}, 'the node fetches no state'],
  ])('the node refuses %s', (_, more, variables, said) => {
    const environment = { ...environmentOf(lazy), ...(variables as Labels) }
    expect(commandFault([...argvOf(lazy), ...more], environment)).toContain(said)
  })
})

describe('workloads', () => {
  test('a node with full state is a StatefulSet with a claim, a lazy node is a Deployment', () => {
    for (const workload of nodes) {
      const node = nodeOf(workload)
      const isFullState = node.args!.includes('--state=whole')
      expect(workload.kind).toBe(isFullState ? 'StatefulSet' : 'Deployment')
      const claims = workload.spec.volumeClaimTemplates?.map(({ metadata }) => metadata.name)
      expect(claims).toEqual(isFullState ? ['data'] : undefined)
      const mount = node.volumeMounts.find(({ name }) => name === 'data')!
      expect(mount.mountPath).toBe(environmentOf(node)['FLASHNODE_DATADIR'])
    }
  })
  test('a StatefulSet has a headless Service that selects its pods', () => {
    for (const { spec } of ofKind('StatefulSet')) {
      const service = find('Service', spec.serviceName)
      expect(service.spec.clusterIP).toBe('None')
      expect(
        isPartOf(service.spec.selector as unknown as Labels, spec.template.metadata.labels),
      ).toBe(true)
    }
  })
  test('every node runs the image of this version as the user of the Dockerfile', () => {
    const user = /--chown=(\d+):/.exec(readFileSync('Dockerfile', 'utf8'))![1]
    for (const workload of nodes) {
      expect(nodeOf(workload).image).toBe(`flashnode:${version()}`)
      expect(workload.spec.template.spec.securityContext.runAsUser).toBe(Number(user))
    }
  })
})

describe('labels', () => {
  test.each(workloads.map(named))('%s selects its own pods and no others', (_, workload) => {
    expect(selected(workload.spec.selector.matchLabels)).toEqual([workload])
  })
  test.each(ofKind('PodDisruptionBudget').map(named))(
    '%s covers one set of pods and allows one of them to be absent',
    (_, budget) => {
      const [workload, ...others] = selected(budget.spec.selector.matchLabels)
      expect(others).toEqual([])
      expect(budget.spec.minAvailable).toBeGreaterThan(0)
      expect(budget.spec.minAvailable).toBeLessThan(replicasOf(workload!))
    },
  )
  test('every node has a disruption budget', () => {
    const guarded = ofKind('PodDisruptionBudget').flatMap(({ spec }) =>
      selected(spec.selector.matchLabels),
    )
    expect(guarded.toSorted()).toEqual([...nodes].toSorted())
  })
  test.each(ofKind('Service').map(named))('%s selects pods that have its ports', (_, { spec }) => {
    const found = selected(spec.selector as unknown as Labels)
    expect(found.length).toBeGreaterThan(0)
    for (const workload of found)
      for (const { port, targetPort } of spec.ports) {
        const ports = containersOf(workload).flatMap((one) => one.ports)
        expect(ports.find(({ name }) => name === targetPort)?.containerPort).toBe(port)
      }
  })
  test('the client Service selects full and lazy nodes', () => {
    const found = selected(find('Service', 'flashnode').spec.selector as unknown as Labels)
    expect(found.map(({ metadata }) => metadata.name).toSorted()).toEqual([
      'flashnode-lazy',
      'flashnode-replica',
    ])
  })
  test('the network policy selects Redis', () => {
    const [policy] = ofKind('NetworkPolicy')
    const guarded = selected(policy!.spec.podSelector.matchLabels)
    expect(guarded.map(({ metadata }) => metadata.name)).toEqual(['flashnode-redis'])
  })
})

describe('every name that a node uses exists', () => {
  const settings = find('ConfigMap', 'flashnode').data
  const hosts = settings['FLASHNODE_HOSTS']!.split(',')

  test.each(nodes.map(named))('the peers of %s', (_, workload) => {
    const node = nodeOf(workload)
    const peers = peersOf([...node.args!, environmentOf(node)['FLASHNODE_UPSTREAM'] ?? ''])
    for (const { hostname, port } of peers) {
      const [pod = '', service = ''] = hostname.split('.')
      const { spec } = find('StatefulSet', service)
      expect(Number(pod.slice(service.length + 1))).toBeLessThan(spec.replicas!)
      expect(port).toBe(String(find('Service', service).spec.ports[0]!.port))
      // The node refuses a host name that it does not know.
      expect(hosts).toContain(hostname)
    }
  })
  test('lazy nodes read the feed of each replica', () => {
    const feeds = peersOf(nodeOf(find('Deployment', 'flashnode-lazy')).args!)
    expect(feeds).toHaveLength(find('StatefulSet', 'flashnode-replica').spec.replicas!)
  })
  test('the address of Redis', () => {
    const { metadata, spec } = find('Service', 'flashnode-redis')
    for (const key of ['FLASHNODE_LIMIT_STORE', 'FLASHNODE_SHARE_TRANSACTIONS'])
      expect(settings[key]).toBe(`redis://${metadata.name}:${spec.ports[0]!.port}`)
  })
  test('ConfigMaps and volumes exist, and deploy.md creates every key of the Secret', () => {
    const keys = new Set<string>()
    for (const workload of nodes) {
      const { volumes } = workload.spec.template.spec
      const claims = (workload.spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name)
      const there = [...volumes.map(({ name }) => name), ...claims]
      for (const { volumeMounts } of containersOf(workload))
        for (const { name } of volumeMounts) expect(there).toContain(name)
      for (const { configMap } of volumes)
        if (configMap !== undefined) expect(find('ConfigMap', configMap.name)).toBeDefined()
      for (const { secret } of volumes)
        for (const { key, path } of secret?.items ?? []) {
          expect(secret!.secretName).toBe('flashnode')
          expect(workload.spec.template.spec.containers[0]!.args!.join()).toContain(
            `/etc/flashnode/${path}`,
          )
          keys.add(key)
        }
      for (const { valueFrom } of nodeOf(workload).env ?? [])
        if (valueFrom !== undefined) keys.add(valueFrom.secretKeyRef.key)
    }
    const page = readFileSync(`${FOLDER}/deploy.md`, 'utf8')
    const [command = ''] = /kubectl create secret generic flashnode [\s\S]*?```/.exec(page) ?? []
    const made = [...command.matchAll(/--from-literal=([\w.-]+)=/g)].map(([, key]) => key!)
    expect(made.toSorted()).toEqual([...keys].toSorted())
    expect([...keys].toSorted()).toEqual(Object.keys(SECRETS).toSorted())
  })
})

describe('ports and probes', () => {
  test.each(nodes.map(named))(
    '%s has the port of haproxy.cfg, and its probes ask for the same paths',
    (_, workload) => {
      const node = nodeOf(workload)
      const [http] = node.ports
      expect(http).toEqual({ name: 'http', containerPort: Number(haproxyDefault('BIND').slice(1)) })
      expect(http!.containerPort).toBe(fallbackOf('port'))
      const paths = [node.startupProbe, node.readinessProbe, node.livenessProbe].map((probe) => {
        expect(probe!.httpGet!.port).toBe('http')
        return probe!.httpGet!.path
      })
      expect(paths).toEqual([
        '/healthz',
        `/readyz?maxLagMs=${haproxyDefault('MAX_LAG_MS')}`,
        '/healthz',
      ])
    },
  )
  test('the metrics container reads the admin port of its node', () => {
    const { data } = find('ConfigMap', 'flashnode-metrics')
    const port = find('ConfigMap', 'flashnode').data['FLASHNODE_ADMIN_PORT']
    expect(data['haproxy.cfg']).toContain(`server node 127.0.0.1:${port}\n`)
    for (const workload of nodes) {
      const [metrics] = containersOf(workload).find(({ name }) => name === 'metrics')!.ports
      expect(data['haproxy.cfg']).toContain(`bind :${metrics!.containerPort}\n`)
    }
  })
  test.each(nodes.map(named))(
    '%s has enough time to stop, and a processor for each thread',
    (_, workload) => {
      const node = nodeOf(workload)
      const environment = environmentOf(node)
      const graceMs = workload.spec.template.spec.terminationGracePeriodSeconds * 1_000
      expect(graceMs).toBeGreaterThan(Number(environment['FLASHNODE_DRAIN_MS']) + STOP_MS)
      const threads =
        Number(environment['FLASHNODE_POOL_THREADS']) +
        Number(environment['FLASHNODE_FRONT_THREADS'])
      expect(threads).toBeLessThanOrEqual(Number(node.resources.requests.cpu))
    },
  )
})

describe('every pod runs without privileges', () => {
  test.each(workloads.map(named))('%s', (_, { spec }) => {
    const pod = spec.template.spec
    expect(pod.securityContext.runAsNonRoot).toBe(true)
    expect(pod.securityContext.runAsUser).toBeGreaterThan(0)
    expect(pod.securityContext.seccompProfile.type).toBe('RuntimeDefault')
    expect(pod.automountServiceAccountToken).toBe(false)
    // Kubernetes would add variables of services, which the node would read as settings.
    expect(pod.enableServiceLinks).toBe(false)
    for (const { securityContext, resources } of pod.containers) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      expect(resources.limits.memory).toMatch(/^\d+[MG]i$/)
      expect(resources.requests.memory).toMatch(/^\d+[MG]i$/)
    }
  })
})
