/** Checks that the autoscaler and the rules query metrics that nodes have. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { METRIC_NAME, namesOfNode } from '../../fixtures/metric-names.ts'
import { fallbackOf, isPartOf, type Labels, ofKind } from './manifests.ts'
import { MONITORING, monitoring } from './monitoring.ts'

type Rule = { readonly record?: string; readonly alert?: string; readonly expr: string }
type Rules = { readonly spec: { readonly groups: readonly { readonly rules: readonly Rule[] }[] } }
const rules = (ofKind('PrometheusRule') as unknown as readonly Rules[]).flatMap(({ spec }) =>
  spec.groups.flatMap((group) => group.rules),
)
const recorded = rules.flatMap(({ record }) => (record === undefined ? [] : [record]))

type Autoscaler = {
  readonly spec: {
    readonly scaleTargetRef: { readonly kind: string; readonly name: string }
    readonly maxReplicas: number
    readonly metrics: readonly {
      readonly pods: { readonly metric: { readonly name: string } }
    }[]
  }
}
const autoscalers = ofKind('HorizontalPodAutoscaler') as unknown as readonly Autoscaler[]

test('monitoring.yaml is up to date (node test/operate/scale/monitoring.ts writes it)', () => {
  expect(readFileSync(MONITORING, 'utf8')).toBe(monitoring())
  expect(rules.filter(({ alert }) => alert !== undefined).length).toBeGreaterThan(7)
  const board = ofKind('ConfigMap').find(({ metadata }) => metadata.name === 'flashnode-board')!
  expect(JSON.parse(board.data['flashnode.json']!)).toEqual(
    JSON.parse(readFileSync('docs/operate/grafana.json', 'utf8')),
  )
})

test('rules query only metrics that a node has or a rule records', async () => {
  const there = new Set([...(await namesOfNode()), ...recorded])
  const wanted = rules.flatMap(({ expr }) => expr.match(METRIC_NAME) ?? [])
  expect(wanted.length).toBeGreaterThan(10)
  expect(wanted.filter((name) => !there.has(name))).toEqual([])
})

test('the autoscaler reads the time that calls wait for a worker', () => {
  const requested = autoscalers.flatMap(({ spec }) =>
    spec.metrics.map(({ pods }) => pods.metric.name),
  )
  expect(requested).toEqual(recorded)
  const rule = rules.find(({ record }) => record === requested[0])!
  expect(rule.expr).toContain('flashnode_pool_queue_seconds_bucket')
  // The adapter needs the pod of each value.
  expect(rule.expr.match(/sum by \(namespace, pod\b/g)).toHaveLength(2)
})

test('the autoscaled workload sets no replicas, and its maximum fits the feed limit', () => {
  const [autoscaler] = autoscalers
  const { scaleTargetRef, maxReplicas } = autoscaler!.spec
  const target = ofKind(scaleTargetRef.kind).find(
    ({ metadata }) => metadata.name === scaleTargetRef.name,
  )!
  expect(target.spec.replicas).toBeUndefined()
  const fixed = ofKind('StatefulSet').reduce((sum, { spec }) => sum + spec.replicas!, 0)
  expect(maxReplicas + fixed).toBeLessThan(Number(fallbackOf('limitFeedSubscribers')))
})

test('the monitor scrapes every node at a port that the node has', () => {
  type Monitor = {
    readonly spec: {
      readonly selector: { readonly matchLabels: Labels }
      readonly podMetricsEndpoints: readonly { readonly port: string }[]
    }
  }
  const [monitor] = ofKind('PodMonitor') as unknown as readonly Monitor[]
  const { selector, podMetricsEndpoints } = monitor!.spec
  const pods = ofKind('StatefulSet', 'Deployment').filter(({ spec }) =>
    isPartOf(selector.matchLabels, spec.template.metadata.labels),
  )
  expect(pods.map(({ metadata }) => metadata.name).toSorted()).toEqual([
    'flashnode-lazy',
    'flashnode-replica',
  ])
  for (const { spec } of pods) {
    const ports = spec.template.spec.containers.flatMap((one) => one.ports)
    expect(ports.map(({ name }) => name)).toContain(podMetricsEndpoints[0]!.port)
  }
})
