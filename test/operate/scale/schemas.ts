/** What is wrong with a manifest by its schema: the API's types of Kubernetes and of Prometheus' operator, the Compose specification. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { requireFrom } from '../../kit/own-packages.ts'

type Fault = { readonly instancePath: string; readonly message?: string; readonly keyword: string }
type Validator = { (data: unknown): boolean; errors?: readonly Fault[] | null }
/** The part of ajv that is used. */
type Ajv = { compile(schema: object): Validator }
type AjvModule = { readonly Ajv: new (options: Readonly<Record<string, boolean>>) => Ajv }

const require = requireFrom(new URL('./', import.meta.url))
const { Ajv } = require('ajv') as AjvModule

const validatorOf = (url: string): Validator =>
  (require(fileURLToPath(url)) as { readonly validate: Validator }).validate
const apiValidator = (type: string) =>
  validatorOf(import.meta.resolve(`kubernetes-models/_schemas/IoK8sApi${type}`))

/** The package of Prometheus' operator has a validator of each type, and does not export it. */
function operatorValidator(type: string): Validator {
  const index = import.meta.resolve('@kubernetes-models/prometheus-operator')
  const prefix = 'ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1'
  return validatorOf(new URL(`_schemas/${prefix}${type}.js`, index).href)
}

/** Each looks at the fields that its schema has, and at no other one. */
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

/** Empty: none. A field that the schema does not have is one, as `kubectl apply --validate=strict` has it. */
export function kubernetesFaults(document: unknown): readonly string[] {
  const { apiVersion, kind } = document as Readonly<Record<string, unknown>>
  const validate = VALIDATORS[`${apiVersion} ${kind}`]
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
  dirname(require.resolve('dclint/package.json')),
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
