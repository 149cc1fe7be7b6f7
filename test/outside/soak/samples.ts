/** The node is read every few seconds, and these functions evaluate the samples over time. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { metricIn, readMetrics } from '../../kit/metrics.ts'

export type Memory = { readonly at: number; readonly rssBytes: number }

export function memoryOf(pid: number, at: number): Memory {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))
  return { at, rssBytes: Number(line![1]) * 1_024 }
}

export type Sample = {
  /** Seconds since the load began. */
  readonly at: number
  readonly pinnedPages: number
  readonly freePages: number
  readonly pages: number
  /** The 99th percentile in milliseconds since the sample before, because each sample resets it. */
  readonly lagMs: number
  readonly block: number
  readonly diskBytes: number
}

/**
 * prom-client's histogram counts the whole pause between two timers of this length, not its excess.
 */
const LAG_RESOLUTION_MS = 10

export async function sampleOf(metricsUrl: string, datadir: string, at: number): Promise<Sample> {
  const metrics = await readMetrics(metricsUrl)
  const value = (name: string) => metricIn(metrics, name)
  return {
    at,
    pinnedPages: value('flashnode_chain{value="view_held_pages"}'),
    freePages: value('flashnode_chain{value="view_free_pages"}'),
    pages: value('flashnode_chain{value="view_pages"}'),
    lagMs: Math.max(0, value('nodejs_eventloop_lag_p99_seconds') * 1_000 - LAG_RESOLUTION_MS),
    block: value('flashnode_head{head="canonical"}'),
    diskBytes: sizeOf(datadir),
  }
}

function sizeOf(path: string): number {
  let sum = 0
  // A file of the database may have been deleted meanwhile.
  for (const entry of readdirSync(path, { withFileTypes: true, recursive: true }))
    if (entry.isFile())
      sum += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0
  return sum
}

/** Computes the slope in bytes a second, by least squares. */
export function slope(samples: readonly Memory[]): number {
  const mean = (read: (sample: Memory) => number) =>
    samples.reduce((sum, sample) => sum + read(sample), 0) / samples.length
  const middle = mean(({ at }) => at)
  const level = mean(({ rssBytes }) => rssBytes)
  const up = samples.reduce((sum, { at, rssBytes }) => sum + (at - middle) * (rssBytes - level), 0)
  return up / samples.reduce((sum, { at }) => sum + (at - middle) ** 2, 0)
}

/** Gives the value that this share of the values does not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}
