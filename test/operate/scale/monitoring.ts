/**
 * Writes docs/operate/scale/kubernetes/monitoring.yaml, which must contain the rules and the board
 * of docs/operate.
 * Usage: node test/operate/scale/monitoring.ts, after a change of one of them.
 */
import { readFileSync, writeFileSync } from 'node:fs'

export const MONITORING = 'docs/operate/scale/kubernetes/monitoring.yaml'

const indented = (text: string, spaces: number): string =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => (line === '' ? '' : ' '.repeat(spaces) + line))
    .join('\n')

/** Builds the content that the file must have. */
export function monitoring(): string {
  const rules = readFileSync('docs/operate/prometheus-rules.yml', 'utf8')
  const groups = rules.slice(rules.indexOf('groups:\n') + 'groups:\n'.length)
  const board = readFileSync('docs/operate/grafana.json', 'utf8')
  return `# For the operator of Prometheus. Rules and board are those of docs/operate: written by \`node test/operate/scale/monitoring.ts\`.
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: flashnode
  labels: { app.kubernetes.io/name: flashnode }
spec:
  selector:
    matchLabels: { app.kubernetes.io/name: flashnode }
  podMetricsEndpoints:
    - { port: metrics, path: /metrics, interval: 10s, scrapeTimeout: 5s }
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: flashnode
  labels: { app.kubernetes.io/name: flashnode }
spec:
  groups:
    - name: flashnode-scaling
      interval: 10s
      rules:
        # Of each pod, how long calls waited for a worker in the last minute: the HorizontalPodAutoscaler asks it. Nobody who waits is 0.
        - record: flashnode_pool_queue_seconds_p95
          expr: >-
            (histogram_quantile(0.95, sum by (namespace, pod, le) (rate(flashnode_pool_queue_seconds_bucket[1m]))) >= 0)
            or 0 * sum by (namespace, pod) (flashnode_pool_threads)
${indented(groups, 2)}
---
# Grafana's sidecar takes what has this label.
apiVersion: v1
kind: ConfigMap
metadata:
  name: flashnode-board
  labels: { app.kubernetes.io/name: flashnode, grafana_dashboard: "1" }
data:
  flashnode.json: |
${indented(board, 4)}
`
}

if (import.meta.main) writeFileSync(MONITORING, monitoring())
