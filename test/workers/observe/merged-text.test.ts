import { describe, expect, test } from 'vitest'
import { mergedText } from '../../../workers/observe/merged-text.ts'
import { createCellMetrics, createMetrics } from '../../../workers/observe/metrics.ts'
import { AT_REST } from '../../fixtures/metric-sources.ts'

const families = (text: string) => [...text.matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name)
const samples = (text: string) =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

describe('metrics of several threads', () => {
  test('one text stays as it is', () => {
    const text = '# HELP a b\n# TYPE a gauge\na 1\n'
    expect(mergedText([text])).toBe(text)
  })

  test('each name once, with the lines of all', async () => {
    const cells = [1, 2].map((cell) => createCellMetrics(AT_REST, cell))
    cells[0]!.call('eth_call', 3, undefined)
    cells[1]!.call('eth_call', 3, -32000)
    const own = createMetrics(AT_REST, () => 0, { isGuest: true })
    const texts = [await own.text(), ...(await Promise.all(cells.map(({ text }) => text())))]
    const merged = mergedText(texts)
    expect(new Set(families(merged)).size).toBe(families(merged).length)
    expect(new Set(families(merged))).toEqual(new Set(texts.flatMap(families)))
    expect(samples(merged).toSorted()).toEqual(texts.flatMap(samples).toSorted())
    expect(merged).toContain('flashnode_rpc_calls_total{method="eth_call",code="0",cell="1"} 1')
    expect(merged).toMatch(
      /flashnode_rpc_seconds_count\{method="eth_call",cell="1"\} 1\n(.*\n)*.*cell="2"/,
    )
  })

  test('what is read of one name is of all', async () => {
    const cell = createCellMetrics(AT_REST, 2)
    cell.call('eth_call', 3, undefined)
    const metrics = createMetrics(AT_REST, () => 0, {
      isGuest: true,
      others: { texts: async () => [], read: cell.read },
    })
    metrics.call('eth_call', 3, undefined)
    const values = await metrics.read('flashnode_rpc_calls_total')
    expect(values.map(({ labels, value }) => [labels['cell'], value])).toEqual([
      [undefined, 1],
      ['2', 1],
    ])
  })
})
