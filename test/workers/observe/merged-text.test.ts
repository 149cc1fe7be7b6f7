import { describe, expect, test } from 'vitest'
import {
  createFrontThreadMetrics,
  createMetrics,
  mergedText,
} from '../../../workers/observe/metrics.ts'
import { IDLE } from '../../fixtures/metric-sources.ts'

const families = (text: string) => [...text.matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name)
const samples = (text: string) =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

describe('the merged metrics of several threads', () => {
  test('equal a single text unchanged', () => {
    const text = '# HELP a b\n# TYPE a gauge\na 1\n'
    expect(mergedText([text])).toBe(text)
  })

  test('have each name once, with the lines of all threads', async () => {
    const frontThreads = [1, 2].map((frontThread) => createFrontThreadMetrics(IDLE, frontThread))
    frontThreads[0]!.call('eth_call', 3, undefined)
    frontThreads[1]!.call('eth_call', 3, -32000)
    const own = createMetrics(IDLE, () => 0, { isGuest: true })
    const texts = [await own.text(), ...(await Promise.all(frontThreads.map(({ text }) => text())))]
    const merged = mergedText(texts)
    expect(new Set(families(merged)).size).toBe(families(merged).length)
    expect(new Set(families(merged))).toEqual(new Set(texts.flatMap(families)))
    expect(samples(merged).toSorted()).toEqual(texts.flatMap(samples).toSorted())
    expect(merged).toContain('flashnode_rpc_calls_total{method="eth_call",code="0",cell="1"} 1')
    expect(merged).toMatch(
      /flashnode_rpc_seconds_count\{method="eth_call",cell="1"\} 1\n(.*\n)*.*cell="2"/,
    )
  })

  test('have the values of all threads for one name', async () => {
    const frontThread = createFrontThreadMetrics(IDLE, 2)
    frontThread.call('eth_call', 3, undefined)
    const metrics = createMetrics(IDLE, () => 0, {
      isGuest: true,
      others: { texts: async () => [], read: frontThread.read },
    })
    metrics.call('eth_call', 3, undefined)
    const values = await metrics.read('flashnode_rpc_calls_total')
    expect(values.map(({ labels, value }) => [labels['cell'], value])).toEqual([
      [undefined, 1],
      ['2', 1],
    ])
  })
})
