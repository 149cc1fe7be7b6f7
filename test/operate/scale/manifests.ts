/** Reads the manifests of docs/operate/scale, and the command lines of nodes in them. */
import { globSync, readFileSync } from 'node:fs'
import { parse, parseAllDocuments } from 'yaml'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { readInvocation } from '../../../workers/config/config.ts'

export const FOLDER = 'docs/operate/scale'

export type Labels = Readonly<Record<string, string>>
export type Selector = { readonly matchLabels: Labels }
export type Probe = { readonly httpGet?: { readonly path: string; readonly port: string } }
export type Container = {
  readonly name: string
  readonly image: string
  readonly args?: readonly string[]
  readonly envFrom?: readonly { readonly configMapRef: { readonly name: string } }[]
  readonly env?: readonly {
    readonly name: string
    readonly value?: string
    readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } }
  }[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly startupProbe?: Probe
  readonly readinessProbe?: Probe
  readonly livenessProbe?: Probe
  readonly resources: {
    readonly requests: { readonly cpu: string; readonly memory: string }
    readonly limits: { readonly memory: string }
  }
  readonly securityContext: {
    readonly allowPrivilegeEscalation: boolean
    readonly readOnlyRootFilesystem: boolean
    readonly capabilities: { readonly drop: readonly string[] }
  }
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}
export type Pod = {
  readonly automountServiceAccountToken: boolean
  readonly enableServiceLinks: boolean
  readonly terminationGracePeriodSeconds: number
  readonly securityContext: {
    readonly runAsNonRoot: boolean
    readonly runAsUser: number
    readonly seccompProfile: { readonly type: string }
  }
  readonly containers: readonly Container[]
  readonly volumes: readonly {
    readonly name: string
    readonly configMap?: { readonly name: string }
    readonly secret?: {
      readonly secretName: string
      readonly items: readonly { readonly key: string; readonly path: string }[]
    }
  }[]
}
/** A document of any kind; its fields depend on the kind. */
export type Manifest = {
  readonly file: string
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly data: Labels
  readonly spec: {
    readonly replicas?: number
    readonly serviceName: string
    readonly selector: Selector
    readonly podSelector: Selector
    readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: Pod }
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[]
    readonly minAvailable: number
    readonly minReplicas: number
    readonly maxReplicas: number
    readonly clusterIP?: string
    readonly ports: readonly { readonly port: number; readonly targetPort: string }[]
  }
}

export const kubernetes: readonly Manifest[] = globSync(`${FOLDER}/kubernetes/*.yaml`).flatMap(
  (file) =>
    parseAllDocuments(readFileSync(file, 'utf8')).map((document) => {
      if (document.errors.length > 0) throw new Error(`${file}: ${document.errors[0]!.message}`)
      return { ...(document.toJS() as Omit<Manifest, 'file'>), file }
    }),
)
export const ofKind = (...kinds: readonly string[]): readonly Manifest[] =>
  kubernetes.filter(({ kind }) => kinds.includes(kind))

export type Service = {
  readonly image: string
  readonly user?: string
  readonly command?: readonly string[]
  readonly environment?: Labels
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly read_only: boolean
  readonly cap_drop: readonly string[]
  readonly security_opt: readonly string[]
  readonly stop_grace_period: string
  readonly ulimits: { readonly nofile: { readonly soft: number } }
  readonly healthcheck: { readonly test: readonly string[] }
  readonly networks: { readonly nodes: { readonly ipv4_address: string } }
  readonly deploy: {
    readonly resources: {
      readonly limits: { readonly cpus: string; readonly memory: string; readonly pids: number }
    }
  }
}
export type Compose = {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, null>>
}

/** The file with the default of each `${NAME:-value}`. */
export const compose = parse(
  readFileSync(`${FOLDER}/compose.yaml`, 'utf8').replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1'),
  { merge: true },
) as Compose

/**
 * Returns the node's own error for flags, variables and values that are wrong or contradict each
 * other; undefined: there is none.
 */
export function commandFault(argv: readonly string[], environment: Labels): string | undefined {
  try {
    readInvocation(['config', 'check', ...argv], environment, COMMANDS)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

const follow = COMMANDS.commands.find(({ name }) => name === 'follow')!
/** Returns the default of a flag of `follow`. */
export const fallbackOf = (name: string): unknown => follow.flags[name]!.fallback

/** haproxy.cfg has defaults as `${NAME-value}`, and other values as the first word after a key. */
const haproxy = readFileSync(`${FOLDER}/haproxy.cfg`, 'utf8')
export const haproxyDefault = (name: string): string =>
  new RegExp(`\\$\\{${name}-([^}]*)\\}`).exec(haproxy)![1]!
export const haproxyMaxConnections = Number(/^ {4}maxconn (\d+)/m.exec(haproxy)![1])
export const haproxyVariables: ReadonlySet<string> = new Set(
  [...haproxy.matchAll(/\$\{(\w+)/g)].map(([, name]) => name!),
)

/** HAProxy forgets an address's node after this time without a request. */
export const haproxyStickMs =
  Number(/^ {4}stick-table .* expire (\d+)s$/m.exec(haproxy)![1]) * 1_000

export const isPartOf = (some: Labels, all: Labels): boolean =>
  Object.entries(some).every(([name, value]) => all[name] === value)

/** Lists the hosts and ports of `--feed` and `--upstream` in a command line and its environment. */
export const peersOf = (texts: readonly string[]): readonly URL[] =>
  texts.flatMap((text) => text.match(/\b(?:ws|http):\/\/[^\s,]+/g) ?? []).map((url) => new URL(url))
