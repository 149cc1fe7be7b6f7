/** This module reads a node's metrics like an operator's Prometheus. */

/**
 * Reads the values by name with labels: `flashnode_head{head="canonical"}`.
 * @throws where the port does not respond
 */
export async function readMetrics(
  url: string,
  signal?: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(url, signal === undefined ? {} : { signal })).text()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
}

/**
 * Gives the value of one metric.
 * @throws where no metric has this name
 */
export function metricIn(metrics: ReadonlyMap<string, number>, name: string): number {
  const value = metrics.get(name)
  if (value === undefined) throw new Error(`the node has no metric ${name}`)
  return value
}

export const readMetric = async (url: string, name: string): Promise<number> =>
  metricIn(await readMetrics(url), name)

/** Sums the metrics whose name with labels matches the pattern. */
export const sumOfMetrics = (metrics: ReadonlyMap<string, number>, pattern: RegExp): number =>
  [...metrics].reduce((sum, [name, value]) => (pattern.test(name) ? sum + value : sum), 0)

export const metricsUrl = (adminPort: number): string => `http://127.0.0.1:${adminPort}/metrics`
