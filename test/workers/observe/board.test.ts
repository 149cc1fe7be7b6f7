/** The board and the alerts of docs/operate must name existing metrics. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { METRIC_NAME, namesOfNode } from '../../fixtures/metric-names.ts'

/** Only the expressions for Prometheus are checked. */
const requested: readonly [file: string, expressions: (text: string) => readonly string[]][] = [
  [
    'grafana.json',
    (text) =>
      (
        JSON.parse(text) as { readonly panels: readonly { targets?: { expr: string }[] }[] }
      ).panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ],
  [
    'prometheus-rules.yml',
    (text) => [...text.matchAll(/expr: (?:>-\n)?([\s\S]*?)\n {8}\w/g)].map(([, expr]) => expr!),
  ],
]

test.each(requested)('%s uses only metrics that exist', async (file, expressions) => {
  const names = await namesOfNode()
  const all = expressions(readFileSync(`docs/operate/${file}`, 'utf8'))
  expect(all.length).toBeGreaterThan(7)
  const wanted = new Set(all.flatMap((expression) => expression.match(METRIC_NAME) ?? []))
  expect([...wanted].filter((name) => !names.has(name))).toEqual([])
})

/** The labels of flashnode_front are made beside its parts. */
test.each(requested)('%s uses only counts of flashnode_front that exist', (file, expressions) => {
  const sources = ['front', 'rate-buckets', 'stats'].map((name) =>
    readFileSync(`workers/front/${name}.ts`, 'utf8'),
  )
  const text = expressions(readFileSync(`docs/operate/${file}`, 'utf8')).join('\n')
  const wanted = [...text.matchAll(/flashnode_front\{what=~?"([^"]+)"/g)]
    .flatMap(([, list]) => list!.split('|'))
    .filter((what) => !what.includes('*'))
  expect(wanted.length).toBeGreaterThan(0)
  const missing = wanted.filter((what) => !new RegExp(`\\b${what}\\b[,:]`).test(sources.join()))
  expect(missing).toEqual([])
})

test('every alert has a line with instructions, and every such line has an alert', () => {
  const rules = readFileSync('docs/operate/prometheus-rules.yml', 'utf8')
  const page = readFileSync('docs/operate/README.md', 'utf8')
  const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name!)
  const reported = [...page.matchAll(/^\| (Flashnode[\w, ]+) \|/gm)].flatMap(([, names]) =>
    names!.split(', '),
  )
  expect(alerts.length).toBeGreaterThan(7)
  expect(reported.toSorted()).toEqual(alerts.toSorted())
})
