/** What is wrong with a manifest by its schema: the API's types of Kubernetes and of Prometheus' operator, the Compose specification. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Ajv } from 'ajv'
import { validate as deployment } from 'kubernetes-models/_schemas/IoK8sApiAppsV1Deployment'
import { validate as statefulSet } from 'kubernetes-models/_schemas/IoK8sApiAppsV1StatefulSet'
import { validate as horizontalPodAutoscaler } from 'kubernetes-models/_schemas/IoK8sApiAutoscalingV2HorizontalPodAutoscaler'
import { validate as configMap } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap'
import { validate as service } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Service'
import { validate as networkPolicy } from 'kubernetes-models/_schemas/IoK8sApiNetworkingV1NetworkPolicy'
import { validate as podDisruptionBudget } from 'kubernetes-models/_schemas/IoK8sApiPolicyV1PodDisruptionBudget'

type Fault = { readonly instancePath: string; readonly message?: string; readonly keyword: string }
type Validator = { (data: unknown): boolean; errors?: readonly Fault[] | null }

/** Of a type of Prometheus' operator, whose package has it and does not name it to others. */
async function operatorValidator(type: string): Promise<unknown> {
  const index = import.meta.resolve('@kubernetes-models/prometheus-operator')
  const prefix = 'ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1'
  const { href } = new URL(`_schemas/${prefix}${type}.js`, index)
  return ((await import(href)) as { readonly validate: unknown }).validate
}

/** Each looks at the fields that its schema has, and at no other one. */
const VALIDATORS: Readonly<Record<string, unknown>> = {
  'apps/v1 Deployment': deployment,
  'apps/v1 StatefulSet': statefulSet,
  'autoscaling/v2 HorizontalPodAutoscaler': horizontalPodAutoscaler,
  'monitoring.coreos.com/v1 PodMonitor': await operatorValidator('PodMonitor'),
  'monitoring.coreos.com/v1 PrometheusRule': await operatorValidator('PrometheusRule'),
  'networking.k8s.io/v1 NetworkPolicy': networkPolicy,
  'policy/v1 PodDisruptionBudget': podDisruptionBudget,
  'v1 ConfigMap': configMap,
  'v1 Service': service,
}

/** Empty: none. A field that the schema does not have is one, as `kubectl apply --validate=strict` has it. */
export function kubernetesFaults(document: unknown): readonly string[] {
  const { apiVersion, kind } = document as Readonly<Record<string, unknown>>
  const validate = VALIDATORS[`${apiVersion} ${kind}`] as Validator | undefined
  if (validate === undefined) return [`no schema of ${apiVersion} ${kind}`]
  const looked = new Map<object, Set<string>>()
  const isValid = validate(watched(document, looked))
  const wrong = isValid ? [] : (validate.errors ?? []).map(said)
  return [...wrong, ...unknownFields(document, looked)]
}

const said = ({ instancePath, keyword, message }: Fault): string =>
  `${instancePath}: ${message ?? keyword}`

/** The same value; which fields of its objects are looked at is written down. */
function watched(value: unknown, looked: Map<object, Set<string>>): unknown {
  if (typeof value !== 'object' || value === null) return value
  const fields = new Set<string>()
  looked.set(value, fields)
  return new Proxy(value, {
    get(target, name, receiver) {
      const found: unknown = Reflect.get(target, name, receiver)
      if (typeof name === 'symbol' || !Object.hasOwn(target, name)) return found
      fields.add(name)
      return watched(found, looked)
    },
  })
}

function unknownFields(
  value: unknown,
  looked: ReadonlyMap<object, ReadonlySet<string>>,
  path = '',
): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  const fields = looked.get(value)
  return Object.entries(value).flatMap(([name, inner]) => {
    const here = `${path}/${name}`
    if (!Array.isArray(value) && fields?.has(name) !== true) return [`${here}: unknown field`]
    return unknownFields(inner, looked, here)
  })
}

/** That of the Compose specification, as a linter of its files has it with it. */
const COMPOSE_SCHEMA = join(
  dirname(createRequire(import.meta.url).resolve('dclint/package.json')),
  'schemas/compose.schema.json',
)

function compileCompose() {
  // Its name for the draft has https, which no validator knows.
  const { $schema: _, ...schema } = JSON.parse(readFileSync(COMPOSE_SCHEMA, 'utf8')) as {
    readonly $schema: string
  }
  return new Ajv({ allErrors: true, allowUnionTypes: true, strictTypes: false }).compile(schema)
}
const compose = compileCompose()

/** Empty: none. */
export const composeFaults = (document: unknown): readonly string[] =>
  compose(document) ? [] : (compose.errors ?? []).map(said)
