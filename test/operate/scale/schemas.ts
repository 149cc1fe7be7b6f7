/**
 * Checks manifests against the types of Kubernetes and of the Prometheus operator, and against the
 * Compose specification.
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { requireFrom } from '../../kit/own-packages.ts'

type Fault = { readonly instancePath: string; readonly message?: string; readonly keyword: string }
type Validator = { (data: unknown): boolean; errors?: readonly Fault[] | null }
/** The test uses this part of ajv. */
type Ajv = { compile(schema: object): Validator }
type AjvModule = { readonly Ajv: new (options: Readonly<Record<string, boolean>>) => Ajv }

const require = requireFrom(new URL('./', import.meta.url))
const { Ajv } = require('ajv') as AjvModule

const validatorOf = (url: string): Validator =>
  (require(fileURLToPath(url)) as { readonly validate: Validator }).validate
const apiValidator = (type: string) =>
  validatorOf(import.meta.resolve(`kubernetes-models/_schemas/IoK8sApi${type}`))

/** The package of the Prometheus operator has a validator of each type, but does not export it. */
function operatorValidator(type: string): Validator {
  const index = import.meta.resolve('@kubernetes-models/prometheus-operator')
  const prefix = 'ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1'
  return validatorOf(new URL(`_schemas/${prefix}${type}.js`, index).href)
}

/** A validator reads only the fields that its schema has. */
const VALIDATORS: Readonly<Record<string, Validator>> = {
  'apps/v1 Deployment': apiValidator('AppsV1Deployment'),
  'apps/v1 StatefulSet': apiValidator('AppsV1StatefulSet'),
  'autoscaling/v2 HorizontalPodAutoscaler': apiValidator('AutoscalingV2HorizontalPodAutoscaler'),
  'monitoring.coreos.com/v1 PodMonitor': operatorValidator('PodMonitor'),
  'monitoring.coreos.com/v1 PrometheusRule': operatorValidator('PrometheusRule'),
  'networking.k8s.io/v1 NetworkPolicy': apiValidator('NetworkingV1NetworkPolicy'),
  'policy/v1 PodDisruptionBudget': apiValidator('PolicyV1PodDisruptionBudget'),
  'v1 ConfigMap': apiValidator('CoreV1ConfigMap'),
  'v1 Service': apiValidator('CoreV1Service'),
}

/**
 * Lists the faults of a manifest. A field that the schema does not have is a fault too, as in
 * `kubectl apply --validate=strict`.
 */
export function kubernetesFaults(document: unknown): readonly string[] {
  const { apiVersion, kind } = document as Readonly<Record<string, unknown>>
  const validate = VALIDATORS[`${apiVersion} ${kind}`]
  if (validate === undefined) return [`no schema of ${apiVersion} ${kind}`]
  const accessed = new Map<object, Set<string>>()
  const isValid = validate(watched(document, accessed))
  const wrong = isValid ? [] : (validate.errors ?? []).map(said)
  return [...wrong, ...unknownFields(document, accessed)]
}

const said = ({ instancePath, keyword, message }: Fault): string =>
  `${instancePath}: ${message ?? keyword}`

/** Returns the same value behind a proxy that records which fields are read. */
function watched(value: unknown, accessed: Map<object, Set<string>>): unknown {
  if (typeof value !== 'object' || value === null) return value
  const fields = new Set<string>()
  accessed.set(value, fields)
  return new Proxy(value, {
    get(target, name, receiver) {
      const found: unknown = Reflect.get(target, name, receiver)
      if (typeof name === 'symbol' || !Object.hasOwn(target, name)) return found
      fields.add(name)
      return watched(found, accessed)
    },
  })
}

function unknownFields(
  value: unknown,
  accessed: ReadonlyMap<object, ReadonlySet<string>>,
  path = '',
): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  const fields = accessed.get(value)
  return Object.entries(value).flatMap(([name, inner]) => {
    const fullPath = `${path}/${name}`
    if (!Array.isArray(value) && fields?.has(name) !== true) return [`${fullPath}: unknown field`]
    return unknownFields(inner, accessed, fullPath)
  })
}

/** A linter of Compose files has the schema of the Compose specification in its package. */
const COMPOSE_SCHEMA = join(
  dirname(require.resolve('dclint/package.json')),
  'schemas/compose.schema.json',
)

function compileCompose() {
  // The `$schema` name of the draft starts with https, which no validator knows.
  const { $schema: _, ...schema } = JSON.parse(readFileSync(COMPOSE_SCHEMA, 'utf8')) as {
    readonly $schema: string
  }
  return new Ajv({ allErrors: true, allowUnionTypes: true, strictTypes: false }).compile(schema)
}
const compose = compileCompose()

/** Lists the faults of a Compose file. */
export const composeFaults = (document: unknown): readonly string[] =>
  compose(document) ? [] : (compose.errors ?? []).map(said)
